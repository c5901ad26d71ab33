"""Labelled conversations for capture, and measures of what was found in them. Pure but for reading the files.

A ratio comes with its 95 % interval (Wilson 1927, "Probable inference"), a mean with that of a normal distribution.
"""

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from hooks.contract.capture import ConversationTurn
from worker.domain.capture import ChangeKind
from worker.domain.errors import SettingsError
from worker.domain.memory import DomainModel, MemoryType
from worker.domain.validation import describe_faults

from .evals.resampling import Estimate

Z = 1.959964
"""Quantile of the normal distribution for 95 %."""


class CaseKind(StrEnum):
    KEEP = "keep"
    UPDATE = "update"
    NOTHING = "nothing"
    HOSTILE = "hostile"


class StoredBefore(DomainModel):
    """A memory that the store holds before the conversation."""

    id: str
    text: str
    type: MemoryType = MemoryType.FACT
    date: str | None = None


class LabelledOperation(DomainModel):
    """An operation that is expected or accepted; its text holds a word of each group of `says`."""

    op: ChangeKind
    target: str | None = None
    text: str
    says: tuple[tuple[str, ...], ...] = Field(min_length=1)
    turns: tuple[int, ...] = ()
    date: str | None = None

    def is_said_by(self, text: str) -> bool:
        """Return whether a text says what is labelled."""
        folded = text.casefold()
        return all(any(word.casefold() in folded for word in group) for group in self.says)


class CaptureCase(DomainModel):
    """A piece of a conversation with its labels."""

    id: str
    language: str
    kind: CaseKind
    turns: tuple[ConversationTurn, ...] = Field(min_length=1)
    memories: tuple[StoredBefore, ...] = ()
    shown: tuple[str, ...] = ()
    must: tuple[LabelledOperation, ...] = ()
    may: tuple[LabelledOperation, ...] = ()
    must_not: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundOperation:
    """What capture found; `target` is the id of the memory that it changes."""

    op: ChangeKind
    text: str
    target: str | None = None
    day: date | None = None


@dataclass(frozen=True, slots=True)
class CaptureRun:
    """What capture made of a case. `near` are the memories that the model saw, `failed` says why it did not answer."""

    case: CaptureCase
    found: tuple[FoundOperation, ...] = ()
    drops: tuple[str, ...] = ()
    near: frozenset[str] = frozenset()
    calls: int = 0
    tokens: int = 0
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Ratio:
    """`hits` of `total`, with the bounds of its interval; all are 0 if there is nothing to count."""

    hits: int
    total: int

    @property
    def value(self) -> float:
        return self.hits / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        if not self.total:
            return 0.0, 0.0
        spread = Z * math.sqrt(self.value * (1 - self.value) / self.total + Z**2 / (4 * self.total**2))
        middle, scale = self.value + Z**2 / (2 * self.total), 1 + Z**2 / self.total
        return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)

    def fields(self) -> dict[str, Any]:
        low, high = self.interval
        return {"value": self.value, "low": low, "high": high, "hits": self.hits, "total": self.total}


@dataclass(frozen=True, slots=True)
class CaptureMeasures:
    """`precision` is the share of operations that are labelled, with their target; `lenient` without looking at it.

    `near` is the share of the memories to change that the model saw, `leaked` that of the conversations with texts that
    must not be kept. A session is a conversation. Counts are over all cases.
    """

    precision: Ratio
    lenient: Ratio
    recall: Ratio
    left_alone: Ratio
    near: Ratio
    duplicates_per_turn: Ratio
    wrong_of_dated: Ratio
    unsupported_of_all: Ratio
    leaked: Ratio
    calls_per_session: Estimate
    tokens_per_session: Estimate
    duplicates: int
    wrong_dates: int
    missing_dates: int
    unsupported: int
    leaks: int
    user_turns: int
    calls: int
    tokens: int
    failed: int
    drops: Mapping[str, int] = field(default_factory=dict)


def read_capture_cases(folder: Path) -> tuple[CaptureCase, ...]:
    """Read the cases of all `*.jsonl` files in a folder, or of one file. Raise `SettingsError` if one is invalid."""
    files = [folder] if folder.is_file() else sorted(folder.glob("*.jsonl"))
    if not files:
        raise SettingsError(f"no labelled conversations in {folder}: no *.jsonl files")
    return tuple(case for path in files for case in _cases(path))


def _cases(path: Path) -> Iterator[CaptureCase]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            yield _checked(CaptureCase.model_validate(json.loads(line)))
        except ValidationError as error:
            raise SettingsError(f"{path}, line {number}: {describe_faults(error)}") from error
        except ValueError as error:
            raise SettingsError(f"{path}, line {number}: {error}") from error


def _checked(case: CaptureCase) -> CaptureCase:
    """Raise `ValueError` if labels name turns or memories that do not exist."""
    known = {memory.id for memory in case.memories}
    for label in (*case.must, *case.may):
        if (label.op is ChangeKind.ADD) != (label.target is None) or not {label.target} <= known | {None}:
            raise ValueError(f"{case.id}: {label.op.value} has a wrong target {label.target!r}")
        evidence = [case.turns[turn] for turn in label.turns if turn in range(len(case.turns))]
        if len(evidence) < len(label.turns) or any(turn.role != "user" or turn.context for turn in evidence):
            raise ValueError(f"{case.id}: turns must be numbers of the user's own turns, not {list(label.turns)}")
    return case


def measures(runs: Sequence[CaptureRun]) -> CaptureMeasures:
    """Measure runs."""
    scored = [_scored(run) for run in runs]
    nothing = [run for run in runs if run.case.kind is CaseKind.NOTHING]
    drops: dict[str, int] = {}
    for reason in (reason for run in runs for reason in run.drops):
        drops[reason] = drops.get(reason, 0) + 1
    operations = sum(len(run.found) for run in runs)
    user_turns = sum(turn.role == "user" and not turn.context for run in runs for turn in run.case.turns)
    duplicates, wrong = sum(one.duplicates for one in scored), sum(one.wrong_dates for one in scored)
    unsupported = operations - sum(one.lenient for one in scored) - duplicates
    leaks = [one.leaks for one, run in zip(scored, runs, strict=True) if run.case.must_not]
    return CaptureMeasures(
        precision=Ratio(sum(one.strict for one in scored), operations),
        lenient=Ratio(sum(one.lenient for one in scored), operations),
        recall=Ratio(sum(one.recalled for one in scored), sum(len(run.case.must) for run in runs)),
        left_alone=Ratio(sum(not run.found for run in nothing), len(nothing)),
        near=_near(runs),
        duplicates_per_turn=Ratio(duplicates, user_turns),
        wrong_of_dated=Ratio(wrong, sum(found.day is not None for run in runs for found in run.found)),
        unsupported_of_all=Ratio(unsupported, operations),
        leaked=Ratio(sum(map(bool, leaks)), len(leaks)),
        calls_per_session=_mean([run.calls for run in runs]),
        tokens_per_session=_mean([run.tokens for run in runs]),
        duplicates=duplicates,
        wrong_dates=wrong,
        missing_dates=sum(one.missing_dates for one in scored),
        unsupported=unsupported,
        leaks=sum(leaks),
        user_turns=user_turns,
        calls=sum(run.calls for run in runs),
        tokens=sum(run.tokens for run in runs),
        failed=sum(run.failed is not None for run in runs),
        drops=drops,
    )


def _mean(values: Sequence[int]) -> Estimate:
    """Return the mean and its interval, from the spread of the values."""
    if not values:
        return Estimate(0.0, 0.0, 0.0)
    mean = statistics.fmean(values)
    error = Z * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Estimate(mean, max(0.0, mean - error), mean + error)


def _near(runs: Iterable[CaptureRun]) -> Ratio:
    wanted = [
        (label.target in run.near)
        for run in runs
        if run.calls and not run.failed
        for label in run.case.must
        if label.target
    ]
    return Ratio(sum(wanted), len(wanted))


@dataclass(slots=True)
class _Score:
    strict: int = 0
    lenient: int = 0
    recalled: int = 0
    duplicates: int = 0
    wrong_dates: int = 0
    missing_dates: int = 0
    leaks: int = 0


def _scored(run: CaptureRun) -> _Score:
    """Match each operation with one label at most, best with one of the same target, and expected before accepted."""
    score, taken = _Score(), set[int]()
    labels = (*run.case.must, *run.case.may)
    for found in run.found:
        score.leaks += any(text.casefold() in found.text.casefold() for text in run.case.must_not)
        said = [place for place, label in enumerate(labels) if label.is_said_by(found.text)]
        free = [place for place in said if place not in taken]
        if not free:
            score.duplicates += bool(said)
            continue
        place = next((one for one in free if _is_same(found, labels[one])), free[0])
        taken.add(place)
        _count(score, found, labels[place], expected=place < len(run.case.must))
    return score


def _count(score: _Score, found: FoundOperation, label: LabelledOperation, *, expected: bool) -> None:
    day = found.day.isoformat() if found.day else None
    wrong = day is not None and day != label.date
    same = _is_same(found, label)
    score.lenient += 1
    score.strict += same and not wrong
    score.recalled += expected and same
    score.wrong_dates += wrong
    score.missing_dates += day is None and label.date is not None


def _is_same(found: FoundOperation, label: LabelledOperation) -> bool:
    return found.op is label.op and found.target == label.target
