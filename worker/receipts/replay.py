"""Runs a receipt's request again, at its time and as a dry run, and says what comes out otherwise.

What the session had been shown at that time is taken from the receipt, not from the ledger, which knows what came
since. The memories are those of today's store, as far as they existed then; the settings those of the receipt.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import structlog
from pydantic import Field, ValidationError

from hooks.contract import MAX_DEADLINE_MS, Engine, InjectionRequest, Mode, Outcome, Reason, Text, new_turn_id
from worker.domain.deadline import Deadline
from worker.domain.errors import NotFound, OperationError, PromptError, SettingsError
from worker.domain.kinds import ReceiptKeep
from worker.domain.ledger import LedgerEntry, LedgerKey
from worker.domain.memory import CandidateVerdict, DomainModel, Memory
from worker.domain.receipt import Receipt, ReceiptPage, TurnOf
from worker.injection.service import InjectionService
from worker.ports.state import Ledger, ReceiptStore
from worker.ports.store import StoreEngine
from worker.settings.file import faults
from worker.settings.former_keys import current_keys
from worker.settings.injection import InjectionConfig, Strategy
from worker.triage.chat_prompt import check_prompt
from worker.triage.decision_selector import check_decision_prompt
from worker.triage.live_selector import DECISION_PROMPT, TRIAGE_PROMPT
from worker.triage.prompt_files import Prompt, parse_prompt

log = structlog.get_logger()

REPLAY_S = MAX_DEADLINE_MS / 1000
"""Seconds that one replay may take."""

NO_MODEL = "none"

IN_A_REPLAY = {"receipt_keep": ReceiptKeep.EVERYTHING}
"""Settings of every replay: its own receipt is compared as a whole, and the model is really asked."""


class ReplayRequest(DomainModel):
    """What is to be different this time; nothing is what it was unless it is said here.

    `prompt` is the text of a prompt file: by the id `decision` it is for decision models, by any other id for the
    strategy `llm`, whichever prompt the settings name. `model` is a name in litellm's notation or `none`, `settings`
    are keys of `[memory_injection]`. `current` takes the settings of today instead of those of the receipt.
    `deadline_ms` also replaces that of the settings.
    """

    prompt: Text | None = None
    model: Text | None = None
    mode: Mode | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    current: bool = False
    deadline_ms: int | None = Field(default=None, gt=0, le=MAX_DEADLINE_MS)


class ReplayRun(DomainModel):
    """What came of the request, then or now."""

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
    """What became of a memory then and now; `None` where it was not considered.

    `place_before` and `place_after` count from 1 in the block's order.
    """

    id: str
    text: str
    before: CandidateVerdict | None
    after: CandidateVerdict | None
    place_before: int | None = None
    place_after: int | None = None

    @property
    def differs(self) -> bool:
        return (self.before, self.place_before) != (self.after, self.place_after)


class ChangedMemory(DomainModel):
    """A memory that is not as it was: `now` is today's version, `None` where it is gone."""

    id: str
    then: int
    now: int | None


class TriedPrompt(DomainModel):
    """The prompt that a replay was given: its name, the strategy that it is for, and the id of the prompt whose place
    it takes there. `used` says whether the choice was made with it."""

    prompt: str
    strategy: Strategy
    replaces: str
    used: bool


class Replay(DomainModel):
    """A receipt's request and what comes out of it today. `same` says that the block has the same memories in the same
    order; `ignored` are settings of the receipt that there are no more; `tried` is the prompt that was given."""

    receipt_id: str
    same: bool
    before: ReplayRun
    after: ReplayRun
    outcomes: tuple[OutcomeChange, ...]
    changed_memories: tuple[ChangedMemory, ...]
    ignored: tuple[str, ...] = ()
    tried: TriedPrompt | None = None


class ReplaySummary(DomainModel):
    """What came of several replays, each in `replays`, where one that failed has a `receipt_id` and an `error`.

    `memories_added` and `memories_removed` are counted over all blocks; medians are of milliseconds. `not_run` are the
    receipts whose turn did not come in the time that there was.
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


Build = Callable[[InjectionConfig, Prompt | None, Ledger, ReceiptStore], Awaitable[InjectionService]]
"""A service that is like the one in use but for its settings, its prompt, its ledger and where its receipts go."""


@dataclass(frozen=True, slots=True)
class ReplayParts:
    """What replays are made with; `ledger` makes an empty one, `prompts` is the folder of what a prompt extends."""

    receipts: ReceiptStore
    engine: StoreEngine
    config_for: Callable[[str], InjectionConfig]
    build: Build
    ledger: Callable[[], Ledger]
    prompts: Path


class Replayer:
    """Runs requests again."""

    def __init__(self, parts: ReplayParts) -> None:
        self._parts = parts

    async def replay(self, tenant: str, receipt_id: str, requested: ReplayRequest, deadline: Deadline) -> Replay:
        """The request of a receipt, then and now.

        Raises `NotFound`; `OperationError` for a receipt without texts and for a prompt that cannot be tried;
        `SettingsError` for other wishes that cannot be.
        """
        receipt = await self._parts.receipts.read(tenant, receipt_id)
        if receipt.kept is not ReceiptKeep.EVERYTHING:
            text = f"receipt {receipt_id} keeps no texts (receipt_keep = {receipt.kept}), so it cannot be run again"
            raise OperationError(Reason.BAD_REQUEST, text)
        known = receipt.config if not requested.current else self._config(receipt).model_dump(mode="json")
        prompt = await asyncio.to_thread(prompt_of, requested.prompt, self._parts.prompts)
        config, ignored = config_of(known, requested, prompt)
        again = await self._again(receipt, config, prompt, requested, deadline)
        today = await self._parts.engine.tenant(tenant).get([one.id for one in receipt.considered])
        found = compared(receipt, again, today, ignored)
        log.info("replayed", receipt=receipt_id, same=found.same, elapsed_ms=again.elapsed_ms)
        return found.model_copy(update={"tried": tried_of(prompt, known, again)})

    def _config(self, receipt: Receipt) -> InjectionConfig:
        return self._parts.config_for(receipt.request.agent_id)

    async def _again(
        self,
        receipt: Receipt,
        config: InjectionConfig,
        prompt: Prompt | None,
        requested: ReplayRequest,
        deadline: Deadline,
    ) -> Receipt:
        request = request_of(receipt, requested)
        ledger, caught = self._parts.ledger(), _Caught()
        key = LedgerKey(request.scope.tenant, request.session_id, request.agent_id)
        await ledger.adopt(key, 1, shown_then(receipt))
        service = await self._parts.build(config, prompt, ledger, caught)
        await service.inject(request, deadline.within(request.deadline_ms / 1000))
        await service.drain()
        if caught.receipt is None:
            raise OperationError(Reason.INTERNAL, "the replay left no receipt")
        return caught.receipt


class _Caught:
    """Takes the receipt of the replay; implements `worker.ports.models.ReceiptStore`."""

    def __init__(self) -> None:
        self.receipt: Receipt | None = None

    async def write(self, receipt: Receipt) -> None:
        self.receipt = receipt

    async def read(self, tenant: str, receipt_id: str) -> Receipt:
        raise NotFound(f"there is no receipt {receipt_id}")

    async def recent(self, tenant: str, limit: int, *, offset: int = 0) -> ReceiptPage:
        return ReceiptPage()

    async def of_turn(self, turn: TurnOf) -> list[Receipt]:
        return []


def request_of(receipt: Receipt, requested: ReplayRequest) -> InjectionRequest:
    """The request as it is run again: at its time, leaving no trace. Pure but for its new id."""
    changes: dict[str, Any] = {"now": receipt.at, "dry_run": True, "visible_blocks": None, "turn_id": new_turn_id()}
    if requested.mode is not None or requested.model == NO_MODEL:
        changes["mode"] = requested.mode or Mode.DETERMINISTIC
    if requested.deadline_ms is not None:
        changes["deadline_ms"] = requested.deadline_ms
    return receipt.request.model_copy(update=changes)


def config_of(
    known: Mapping[str, object], requested: ReplayRequest, prompt: Prompt | None = None
) -> tuple[InjectionConfig, tuple[str, ...]]:
    """The settings of a replay, and those of the receipt that there are no more. Raises `SettingsError`. Pure."""
    fields, known = InjectionConfig.model_fields, current_keys(known)
    values: dict[str, Any] = {key: value for key, value in known.items() if key in fields}
    values |= {**requested.settings, **IN_A_REPLAY}
    if requested.model is not None and requested.model != NO_MODEL:
        values["models"] = [requested.model]
        values["strategy"] = requested.settings.get("strategy", Strategy.AUTO)
    if requested.deadline_ms is not None:
        values["deadline_ms"] = requested.deadline_ms
    if prompt is not None and prompt.id != DECISION_PROMPT:
        values["prompt"] = prompt.id
    try:
        return InjectionConfig.model_validate(values), tuple(sorted(set(known) - set(fields)))
    except ValidationError as error:
        raise SettingsError("; ".join(faults(error, InjectionConfig, "memory_injection", ()))) from error


def shown_then(receipt: Receipt) -> dict[str, LedgerEntry]:
    """What the session had in its context, as far as it mattered to the request. Pure."""
    shown = (one for one in receipt.considered if one.verdict is CandidateVerdict.ALREADY_SHOWN)
    return {one.id: LedgerEntry(one.version, 0, "", lasting=True) for one in shown}


def prompt_of(text: str | None, folder: Path) -> Prompt | None:
    """The prompt of a file's text, which may extend one of `folder` or a shipped one.

    Blocks. Raises `OperationError` for one that cannot be tried.
    """
    if text is None:
        return None
    try:
        prompt = parse_prompt(text, "the prompt", folder)
        (check_decision_prompt if prompt.id == DECISION_PROMPT else check_prompt)(prompt)
    except PromptError as error:
        raise OperationError(Reason.BAD_REQUEST, f"this cannot be tried as a prompt that chooses: {error}") from error
    return prompt


def tried_of(prompt: Prompt | None, known: Mapping[str, object], again: Receipt) -> TriedPrompt | None:
    """What became of the prompt that a replay was given; `known` are the settings that it replaces one of. Pure."""
    if prompt is None:
        return None
    decides = prompt.id == DECISION_PROMPT
    return TriedPrompt(
        prompt=prompt.name,
        strategy=Strategy.DECISION if decides else Strategy.LLM,
        replaces=DECISION_PROMPT if decides else str(known.get("prompt", TRIAGE_PROMPT)),
        used=again.model is not None and again.model.prompt_id == prompt.name,
    )


def compared(before: Receipt, after: Receipt, today: Sequence[Memory], ignored: tuple[str, ...] = ()) -> Replay:
    """Two receipts of one request side by side, and what has changed in the store since the first. Pure."""
    versions = {memory.id: memory.version for memory in today}
    return Replay(
        receipt_id=before.id,
        same=before.chosen == after.chosen,
        before=_run(before),
        after=_run(after),
        outcomes=_candidate_outcomes(before, after),
        changed_memories=tuple(
            ChangedMemory(id=one.id, then=one.version, now=versions.get(one.id))
            for one in before.considered
            if versions.get(one.id) != one.version
        ),
        ignored=ignored,
    )


def summed_up(replays: Sequence[dict[str, Any]], not_run: Sequence[str] = ()) -> ReplaySummary:
    """Several replays together, each a `Replay` as JSON or a receipt's id and an error. Pure."""
    done = [one for one in replays if "error" not in one]
    pairs = [(set(one["before"]["chosen"]), set(one["after"]["chosen"])) for one in done]
    return ReplaySummary(
        replayed=len(done),
        failed=len(replays) - len(done),
        same=sum(one["same"] for one in done),
        with_memory_before=sum(bool(before) for before, _ in pairs),
        with_memory_after=sum(bool(after) for _, after in pairs),
        memories_added=sum(len(after - before) for before, after in pairs),
        memories_removed=sum(len(before - after) for before, after in pairs),
        degraded_before=sum(one["before"]["degraded"] for one in done),
        degraded_after=sum(one["after"]["degraded"] for one in done),
        median_ms_before=_median([one["before"]["elapsed_ms"] for one in done]),
        median_ms_after=_median([one["after"]["elapsed_ms"] for one in done]),
        not_run=tuple(not_run),
        replays=tuple(replays),
    )


def _median(values: Sequence[float]) -> float | None:
    return round(median(values), 1) if values else None


def _run(receipt: Receipt) -> ReplayRun:
    return ReplayRun(
        outcome=receipt.outcome,
        reason=receipt.reason,
        engine=receipt.engine,
        degraded=receipt.degraded,
        chosen=receipt.chosen,
        model=receipt.model.name if receipt.model else None,
        prompt=receipt.model.prompt_id if receipt.model else None,
        config_version=receipt.config_version,
        notes=receipt.notes,
        elapsed_ms=receipt.elapsed_ms,
        stages=receipt.stages,
    )


def _candidate_outcomes(before: Receipt, after: Receipt) -> tuple[OutcomeChange, ...]:
    """Every memory that was considered then or is now: those of the block first, then by what is more relevant."""
    then = {one.id: one for one in before.considered}
    now = {one.id: one for one in after.considered}
    order = dict.fromkeys([*before.chosen, *after.chosen, *then, *now])
    return tuple(
        OutcomeChange(
            id=key,
            text=(now.get(key) or then[key]).text,
            before=then[key].verdict if key in then else None,
            after=now[key].verdict if key in now else None,
            place_before=_place(before.chosen, key),
            place_after=_place(after.chosen, key),
        )
        for key in order
    )


def _place(chosen: Sequence[str], key: str) -> int | None:
    return chosen.index(key) + 1 if key in chosen else None
