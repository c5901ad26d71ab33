"""What an evaluation is made of and what it brings: one entry per task and repeat, with its labels. Frozen, no I/O.

A report holds everything that measuring and comparing need; the worlds are not read again.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from hooks.contract import Engine, Outcome, Reason, UtcTime
from worker.domain.errors import SettingsError
from worker.domain.memory import DomainModel

TEXT_CHARS = 300
"""Characters of a message or of a memory that a report keeps, for people to see what went wrong."""

FORM = 1
"""The form of a report; one that is written in another form is not read."""


class TaskRun(DomainModel):
    """What became of one task, once. All ids are of memories of its world; `elapsed_ms` is what the service took.

    `known` are memories that the session had been shown before: to bring them again would be a repetition.
    """

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
        """World and task."""
        return self.world, self.task

    @property
    def relevant(self) -> frozenset[str]:
        return frozenset((*self.essential, *self.useful))


class Setup(DomainModel):
    """What was evaluated. `settings` are the values that are not the defaults; the hashes are SHA-256.

    `pipeline` is of the code that answers requests, `worlds` of each world's files.
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
    """An evaluation; what `eval --json` prints besides is ignored when it is read.

    `messages` and `memories` are the texts that the runs speak of, by world and id, clipped. `missing` counts tasks
    that were not run, and `stopped` says why.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

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


def read_report(text: str | bytes, source: str) -> Report:
    """A report as it was saved. Raises `SettingsError` that begins with `source`."""
    try:
        report = Report.model_validate_json(text)
    except ValidationError as error:
        raise SettingsError(f"{source}: this is no report of `meeseeks eval`: {_first(error)}") from error
    if report.form != FORM:
        raise SettingsError(f"{source}: written by another version (form {report.form}); evaluate again")
    return report


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"


def by_task(runs: Iterable[TaskRun]) -> dict[tuple[str, str], list[TaskRun]]:
    """Every repeat of a task, worlds and tasks in the order of their names."""
    found: dict[tuple[str, str], list[TaskRun]] = {}
    for run in sorted(runs, key=lambda run: (run.world, run.task, run.repeat)):
        found.setdefault(run.key, []).append(run)
    return found


def spoken_of(runs: Iterable[TaskRun]) -> Iterator[tuple[str, str]]:
    """World and id of every memory that a run was to bring, or has brought."""
    for run in runs:
        for key in {*run.essential, *run.injected}:
            yield run.world, key
