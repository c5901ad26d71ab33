"""Upkeep: what a run over the memories of a tenant found, and what became of it. No text of a memory is kept."""

from enum import StrEnum

from pydantic import Field

from hooks.contract import Key, KeyName, Text, UtcTime

from .memory import DomainModel

MOST_STEPS = 1000
"""Maximum steps of a run; the next run takes the others."""

RUN_UNDO_S = 60.0
"""Maximum seconds in which a run is undone."""

LEAST_INJECTED = 5
"""Injections without use from which a memory is listed as unused."""


class UpkeepMode(StrEnum):
    """What the nightly run does: nothing, only a report, or the changes, too."""

    OFF = "off"
    REPORT = "report"
    APPLY = "apply"


class StepKind(StrEnum):
    """What a step does: merge duplicates, close what has expired, or propose that a memory supersedes another."""

    MERGE = "merge"
    CLOSE = "close"
    PROPOSE = "propose"


class StepState(StrEnum):
    """What became of a step. A memory that others changed meanwhile is skipped."""

    PLANNED = "planned"
    DONE = "done"
    SKIPPED = "skipped"
    UNDONE = "undone"


class KeptBefore(DomainModel):
    """What a kept memory had before the merge: its values, and digests of its cues, entities and relations.

    `filled` are fields that were empty and took the value of a duplicate.
    """

    created_at: UtcTime | None = None
    importance: float
    pinned: bool = False
    had: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()


class UpkeepStep(DomainModel):
    """One step: `memory` stays, is closed, or is the newer one; `others` are its duplicates, or what it replaces.

    `digests` identify the memories as they were read; one that differs is not changed. `until` is the end of validity
    of a closed memory.
    """

    kind: StepKind
    memory: Key
    others: tuple[Key, ...] = ()
    digests: dict[Key, str] = Field(default_factory=dict)
    before: KeptBefore | None = None
    until: UtcTime | None = None
    state: StepState = StepState.PLANNED


class UnusedMemory(DomainModel):
    """A memory that was injected often, and that no reported answer used."""

    id: Key
    injected: int


class RunState(StrEnum):
    """Whether a run goes on, has ended, has failed, or was undone."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"


class UpkeepRun(DomainModel):
    """A run and its report.

    `planned` says that `steps` are complete. `left` steps are for the next run. `phase`, `done` and `total` are its
    progress.
    """

    id: Key
    tenant: KeyName = "default"
    at: UtcTime
    apply: bool = False
    nightly: bool = False
    state: RunState = RunState.RUNNING
    planned: bool = False
    memories: int = 0
    steps: tuple[UpkeepStep, ...] = ()
    unused: tuple[UnusedMemory, ...] = ()
    left: int = 0
    seconds: float = 0.0
    error: Text | None = None
    phase: Text = "reading"
    done: int = 0
    total: int = 0
