"""Results of evaluations: one entry per task and repeat, with its labels. No I/O.

Measuring and comparing need only the reports, not the worlds.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from hooks.contract import Engine, Outcome, Reason, UtcTime
from worker.domain.errors import SettingsError
from worker.domain.memory import DomainModel
from worker.domain.validation import describe_faults

TEXT_CHARS = 300
"""Maximum characters of a message or memory in a report."""

MODEL_FAILURES = frozenset(reason for reason in Reason if reason.value.startswith("model_"))

FORM = 1
"""Version of the report format; other versions are rejected."""


class TaskRun(DomainModel):
    """One run of a task, with ids of memories of its world. `known` are memories that the session has already seen."""

    world: str
    task: str
    category: str
    repeat: int = 0
    essential: tuple[str, ...] = ()
    useful: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    injected: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    outcome: Outcome
    reason: Reason | None = None
    engine: Engine = Engine.NONE
    degraded: bool = False
    elapsed_ms: float = 0.0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.world, self.task

    @property
    def relevant(self) -> frozenset[str]:
        return frozenset((*self.essential, *self.useful))


class Setup(DomainModel):
    """What was evaluated. `settings` are the non-default ones.

    `pipeline` is the SHA-256 of the code that answers requests, `worlds` those of each world's files.
    """

    prompt: str
    prompt_hash: str
    model: str | None
    embedder: str
    settings: dict[str, Any] = Field(default_factory=dict)
    pipeline: str
    worlds: dict[str, str]
    repeat: int = 1
    parallel: int = 1


class Report(DomainModel):
    """An evaluation. `messages` and `memories` are clipped texts by world and id; `missing` counts tasks not run."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # `eval --json` prints further keys

    form: int = FORM
    id: str
    at: UtcTime
    setup: Setup
    runs: tuple[TaskRun, ...]
    messages: dict[str, dict[str, str]] = Field(default_factory=dict)
    memories: dict[str, dict[str, str]] = Field(default_factory=dict)
    missing: int = 0
    stopped: str | None = None
    cached: int = 0

    @property
    def categories(self) -> list[str]:
        return sorted({run.category for run in self.runs})

    @property
    def unanswered(self) -> str | None:
        """Return what to say if the model was asked and never answered: the choices are then those of the fallback."""
        failed = [run.reason for run in self.runs if run.degraded and run.reason in MODEL_FAILURES]
        if not failed or any(run.engine in (Engine.LLM, Engine.DECISION) for run in self.runs):
            return None
        (reason, _), *_ = Counter(failed).most_common(1)
        return (
            f"the model {self.setup.model} answered 0 of {len(failed)} requests ({reason}); the fallback chose instead"
        )


def read_report(text: str | bytes, source: str) -> Report:
    """Parse a saved report. Raise `SettingsError` naming `source` if it is invalid."""
    try:
        report = Report.model_validate_json(text)
    except ValidationError as error:
        raise SettingsError(f"{source}: not a report of `meeseeks eval`: {describe_faults(error)}") from error
    if report.form != FORM:
        raise SettingsError(f"{source}: written by another version (form {report.form}); run the evaluation again")
    return report


def by_task(runs: Iterable[TaskRun]) -> dict[tuple[str, str], list[TaskRun]]:
    """Group runs by world and task, both sorted by name."""
    found: dict[tuple[str, str], list[TaskRun]] = {}
    for run in sorted(runs, key=lambda run: (run.world, run.task, run.repeat)):
        found.setdefault(run.key, []).append(run)
    return found


def sha256(text: str) -> str:
    return digest([text.encode()])


def digest(parts: Iterable[bytes]) -> str:
    """Return the SHA-256 of `parts`, each prefixed with its length, in hexadecimal."""
    found = hashlib.sha256()
    for part in parts:
        found.update(str(len(part)).encode() + b":" + part)
    return found.hexdigest()
