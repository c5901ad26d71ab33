"""Measure search thresholds on labelled tasks, or on off-topic tasks against a store's own memories. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from worker import PACKAGE_ROOT
from worker.domain.errors import SettingsError
from worker.recall.thresholds import Thresholds

OFF_TOPIC_STOPPED = 0.75
"""Share of off-topic tasks below the query threshold; a higher share costs recall, see `docs/choosing.md`."""

OFF_TOPIC_SILENT = 0.95
"""Share of off-topic tasks below the keyword threshold, and below the threshold for injection without a model."""

PASSING = 0.99
"""Share of tasks with relevant memories that reach the query threshold."""

KEPT = 0.98
"""Share of relevant memories above the candidate threshold."""

CLEAN = 0.92
"""Share of tasks without relevant memories for which nothing is injected without a model."""

KEYWORD_SHARES = tuple(share / 20 for share in range(8, 21))
"""Shares of tasks without relevant memories below the keyword threshold; the best is taken."""

LEAST_TASKS = 20
LEAST_MEMORIES = 20
"""Minimum numbers for a measurement."""

PARTS = 5
"""Parts for cross-validation."""


@dataclass(frozen=True, slots=True)
class ObservedCandidate:
    """Raw scores and label of a candidate; `keyword` is in units of the logarithm of the store's size."""

    cosine: float
    keyword: float
    relevance: float
    relevant: bool = False


Observation = Sequence[ObservedCandidate]
"""The candidates of one task without thresholds; empty if nothing was found."""

Measure = Callable[[Sequence[Observation]], Thresholds]


@dataclass(frozen=True, slots=True)
class ThresholdEffect:
    """Effects of thresholds as shares from 0 to 1, `None` if nothing counts for them.

    `passing`: tasks with relevant memories that get candidates. `kept`: relevant memories among the candidates.
    Of the tasks without relevant memories, `stopped` get no candidates and `clean` no injection without a model.
    """

    passing: float | None
    kept: float | None
    stopped: float | None
    clean: float | None


def off_topic_tasks() -> tuple[str, ...]:
    """Read the shipped tasks that no memory matters for."""
    text = (PACKAGE_ROOT / "assets/off_topic.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def from_off_topic(observed: Sequence[Observation], now: Thresholds) -> Thresholds:
    """Measure the thresholds that stop off-topic tasks; adjust those that need labels only to stay consistent.

    Raise `SettingsError` if there are too few tasks.
    """
    if len(observed) < LEAST_TASKS:
        raise SettingsError(f"{len(observed)} tasks are too few to measure thresholds; it takes {LEAST_TASKS}")
    query_threshold = quantile([_best(task, "cosine") for task in observed], OFF_TOPIC_STOPPED)
    keyword = quantile([_best(task, "keyword") for task in observed], OFF_TOPIC_SILENT)
    most = quantile([_best(task, "relevance") for task in observed], OFF_TOPIC_SILENT)
    return Thresholds(
        candidate_threshold=_rounded(min(now.candidate_threshold, query_threshold)),
        query_threshold=_rounded(query_threshold),
        keyword=_rounded(max(now.keyword, keyword)),
        confident=_rounded(max(now.confident, most)),
    )


def from_labelled(observed: Sequence[Observation]) -> Thresholds:
    """Measure thresholds that keep relevant memories and stop as much of the rest as possible.

    Raise `SettingsError` if too few tasks find something relevant, or too few do not.
    """
    having = sum(any(seen.relevant for seen in task) for task in observed)
    if min(having, len(observed) - having) < LEAST_TASKS:
        raise SettingsError(
            f"{having} labelled tasks find a relevant memory and {len(observed) - having} do not, too few to measure"
            f" thresholds; it takes {LEAST_TASKS} of each: label more receipts with `meeseeks eval label`"
        )
    return _labelled(observed)


def _labelled(observed: Sequence[Observation]) -> Thresholds:
    with_any = [task for task in observed if any(seen.relevant for seen in task)]
    without = [task for task in observed if not any(seen.relevant for seen in task)]
    relevant = [seen for task in with_any for seen in task if seen.relevant]
    query_threshold, keyword = _query_threshold(with_any, without)
    return Thresholds(
        candidate_threshold=_rounded(min(query_threshold, quantile([seen.cosine for seen in relevant], 1.0 - KEPT))),
        query_threshold=_rounded(query_threshold),
        keyword=_rounded(keyword),
        confident=_rounded(quantile([_best(task, "relevance") for task in without], CLEAN)),
    )


def _query_threshold(with_any: Sequence[Observation], without: Sequence[Observation]) -> tuple[float, float]:
    """Return the pair of cosine and keyword thresholds that stops most other tasks while `PASSING` is reached."""
    best = (-1.0, -1.0, 0.0)
    scores = [_best(task, "keyword") for task in without]
    beyond = 1.0 + max(_best(task, "keyword") for task in (*with_any, *without))
    for keyword in (*(quantile(scores, share) for share in KEYWORD_SHARES), beyond):
        by_cosine = sorted(_best(task, "cosine") for task in with_any if _best(task, "keyword") < keyword)
        missed = int((1.0 - PASSING) * len(with_any))
        query_threshold = by_cosine[missed] if missed < len(by_cosine) else 1.0
        stopped = sum(_best(task, "cosine") < query_threshold and _best(task, "keyword") < keyword for task in without)
        best = max(best, (stopped, query_threshold, keyword))
    return best[1], best[2]


def effect_of(thresholds: Thresholds, observed: Sequence[Observation]) -> ThresholdEffect:
    """Measure `thresholds` on these tasks."""
    return _effect([(task, thresholds) for task in observed])


def labelled_effect(observed: Sequence[Observation]) -> ThresholdEffect:
    """Cross-validate `from_labelled`; the observations must be enough for it."""
    return unseen_effect(observed, _labelled)


def unseen_effect(observed: Sequence[Observation], measure: Measure) -> ThresholdEffect:
    """Cross-validate measured thresholds: each part is measured with thresholds from the other parts."""
    parts = _parts(observed)
    measured = [
        measure([task for task, other in zip(observed, parts, strict=True) if other != part]) for part in range(PARTS)
    ]
    return _effect([(task, measured[part]) for task, part in zip(observed, parts, strict=True)])


def _parts(observed: Sequence[Observation]) -> list[int]:
    """Assign tasks to parts, spreading those with and without relevant memories evenly."""
    counts = {True: count(), False: count()}
    return [next(counts[any(seen.relevant for seen in task)]) % PARTS for task in observed]


def _effect(each: Sequence[tuple[Observation, Thresholds]]) -> ThresholdEffect:
    kept = [_candidates(task, thresholds) for task, thresholds in each]
    with_any = [place for place, (task, _) in enumerate(each) if any(seen.relevant for seen in task)]
    without = sorted(set(range(len(each))) - set(with_any))
    clean = [all(seen.relevance < each[place][1].confident for seen in kept[place]) for place in without]
    return ThresholdEffect(
        passing=_share(sum(bool(kept[place]) for place in with_any), len(with_any)),
        kept=_share(
            sum(seen.relevant for task in kept for seen in task),
            sum(seen.relevant for task, _ in each for seen in task),
        ),
        stopped=_share(sum(not kept[place] for place in without), len(without)),
        clean=_share(sum(clean), len(without)),
    )


def quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile at `share` (0 to 1), interpolating linearly."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def _candidates(task: Observation, thresholds: Thresholds) -> list[ObservedCandidate]:
    """Return the candidates that pass the thresholds."""
    if not any(seen.cosine >= thresholds.query_threshold or seen.keyword >= thresholds.keyword for seen in task):
        return []
    return [
        seen for seen in task if seen.cosine >= thresholds.candidate_threshold or seen.keyword >= thresholds.keyword
    ]


def _best(task: Observation, score: str) -> float:
    return max((float(getattr(seen, score)) for seen in task), default=0.0)


def _share(number: int, of: int) -> float | None:
    return round(number / of, 4) if of else None


def _rounded(value: float) -> float:
    """Round down to three digits, so that a threshold never exceeds the value it was measured from."""
    return math.floor(value * 1000.0) / 1000.0
