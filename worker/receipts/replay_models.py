"""What a replay may change, and what it returns."""

from typing import Any

from pydantic import Field

from hooks.contract import MAX_DEADLINE_MS, Engine, Mode, Outcome, Reason, Text
from worker.domain.memory import CandidateVerdict, DomainModel
from worker.settings.search import PATTERN_KEYS
from worker.settings.selection import Strategy

REPLAY_S = MAX_DEADLINE_MS / 1000
"""Maximum seconds of one replay."""

NO_MODEL = "none"


class ReplayRequest(DomainModel):
    """Changes for a replay; by default everything is as it was.

    `prompt` is the text of a prompt file; with the id `decision` it is for decision models, with any other id for the
    strategy `llm`. `model` is a LiteLLM model name or `none`, `settings` are keys of `[memory_injection]`. `current`
    uses today's settings instead of the receipt's. `deadline_ms` also overrides the settings.
    """

    prompt: Text | None = None
    model: Text | None = None
    mode: Mode | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    current: bool = False
    deadline_ms: int | None = Field(default=None, gt=0, le=MAX_DEADLINE_MS)


OPERATORS_SETTINGS = PATTERN_KEYS | {"models"}
"""Settings that a tenant may not change in a replay: models cost money, and expressions take the time of all."""


def concerns_all_tenants(requested: ReplayRequest) -> bool:
    """Return whether a replay changes what only those may who are not bound to a tenant."""
    return requested.model not in (None, NO_MODEL) or not OPERATORS_SETTINGS.isdisjoint(requested.settings)


class ReplayRun(DomainModel):
    """The result of the request, then or now."""

    outcome: Outcome
    reason: Reason | None
    engine: Engine
    degraded: bool
    chosen: tuple[str, ...]
    model: str | None
    prompt: str | None
    config_version: str
    notes: tuple[str, ...]
    elapsed_ms: float
    stages: dict[str, float]


class OutcomeChange(DomainModel):
    """Outcomes of a memory then and now, `None` if it was not considered; places in the block count from 1."""

    id: str
    text: str
    before: CandidateVerdict | None
    after: CandidateVerdict | None
    place_before: int | None = None
    place_after: int | None = None


class ChangedMemory(DomainModel):
    """A memory that has changed: `now` is today's version, `None` if it was deleted."""

    id: str
    then: int
    now: int | None


class TriedPrompt(DomainModel):
    """The prompt of a replay, its strategy, the id of the prompt it replaces, and whether it was used."""

    prompt: str
    strategy: Strategy
    replaces: str
    used: bool


class Replay(DomainModel):
    """A request's results then and now. `same` means the same memories in the same order.

    `ignored` are settings of the receipt that no longer exist; `tried` is the prompt of the replay.
    """

    receipt_id: str
    same: bool
    before: ReplayRun
    after: ReplayRun
    outcomes: tuple[OutcomeChange, ...]
    changed_memories: tuple[ChangedMemory, ...]
    ignored: tuple[str, ...] = ()
    tried: TriedPrompt | None = None


class ReplaySummary(DomainModel):
    """A summary of several replays. Failed ones have only a `receipt_id` and an `error` in `replays`.

    `memories_added` and `memories_removed` count over all blocks. `not_run` are receipts for which no time was left.
    """

    replayed: int
    failed: int
    same: int
    with_memory_before: int
    with_memory_after: int
    memories_added: int
    memories_removed: int
    degraded_before: int
    degraded_after: int
    median_ms_before: float | None
    median_ms_after: float | None
    not_run: tuple[str, ...] = ()
    replays: tuple[dict[str, Any], ...]
