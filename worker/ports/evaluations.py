"""Evaluations that the service runs in the background: what is ordered, how far it is, and what came out."""

from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field

from hooks.contract import KeyName, Text, UtcTime
from worker.domain.memory import DomainModel
from worker.settings.selection import Strategy


class EvaluationOrder(DomainModel):
    """What to evaluate: a set of cases, who chooses, the text of a prompt file if not the one in force, and a limit.

    `cases` is the name of a set; `max_cost` is in US dollars.
    """

    cases: KeyName
    strategy: Strategy = Strategy.AUTO
    prompt: Text | None = None
    max_cost: float = Field(default=1.0, ge=0.0, le=100.0)


class EvaluationJob(DomainModel):
    """What a process needs for one evaluation: the order, its labelled tasks, and how to read the settings.

    `labelled` is a file or folder, `None` for all shipped worlds; `config` is the settings file, if there is one.
    `saved` are the settings saved for all agents, which take precedence over the file.
    """

    order: EvaluationOrder
    labelled: Path | None
    config: Path | None
    overrides: dict[str, Any]
    saved: dict[str, Any] = Field(default_factory=dict)


class EstimatedMeasure(DomainModel):
    """A measure and its 95 % interval, whose ends are `None` if too little is known."""

    value: float
    low: float | None
    high: float | None


class EvaluationResult(DomainModel):
    """What came out. `measures` are by name, also for each category.

    `faults` are the mean faults of each task by world and id, and `worlds` the hashes of the cases; earlier versions
    kept neither. `times_ms` are the percentiles 0 to 100 of the answers' times. `fault` says why the model was not
    measured, and `stopped` why tasks are missing.
    """

    report: str
    prompt: str
    model: str | None
    runs: int
    cached: int
    missing: int
    stopped: str | None = None
    fault: str | None = None
    measures: dict[str, EstimatedMeasure]
    categories: dict[str, dict[str, EstimatedMeasure]]
    times_ms: tuple[float, ...]
    faults: dict[str, float] = Field(default_factory=dict)
    worlds: dict[str, str] = Field(default_factory=dict)


class EvaluationNews(DomainModel):
    """A line that the process of an evaluation writes: how far it is, and at its end a result or an error."""

    done: int = 0
    total: int = 0
    result: EvaluationResult | None = None
    error: str | None = None


class EvaluationPhase(StrEnum):
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class EvaluationState(DomainModel):
    """An evaluation of a tenant.

    `saved` are the keys of saved settings that it used beside the file; `None` if it used the file only, as earlier
    versions did.
    """

    id: str
    tenant: str
    order: EvaluationOrder
    phase: EvaluationPhase = EvaluationPhase.RUNNING
    saved: tuple[str, ...] | None = None
    began: UtcTime
    ended: UtcTime | None = None
    done: int = 0
    total: int = 0
    error: str | None = None
    result: EvaluationResult | None = None


class Evaluations(Protocol):
    """Runs one evaluation at a time, and keeps the latest of each tenant."""

    async def start(self, tenant: str, order: EvaluationOrder, labelled: Path | None) -> EvaluationState:
        """Begin an evaluation. Raise `OperationError` while another runs, `SettingsError` if nothing can be kept."""
        ...

    async def latest(self, tenant: str) -> list[EvaluationState]:
        """Return the tenant's evaluations, newest first."""
        ...

    async def stop(self, tenant: str, evaluation_id: str) -> EvaluationState:
        """End a running evaluation. Raise `NotFound` if the tenant has none of that id."""
        ...
