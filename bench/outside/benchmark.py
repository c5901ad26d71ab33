"""The product on data sets by other authors, beside mem0 if it is installed."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.progress import Progress

from worker.adapters.models.minilm import PROFILE
from worker.adapters.models.relevance_file import read_relevance_model
from worker.tuning.evals.results import TaskRun
from worker.tuning.labelled_worlds import LabelledWorld

from ..measure import Check, Result, Series, Table
from ..options import Options
from ..processes import BenchError
from . import locomo, peer, precision_mem_bench
from .files import folder_of
from .ours import BALANCED, chosen, fallen_back, injected, orders
from .scoring import SPLITS, Ranked, Score, cross_fitted, score_of, share_found

NAME = "outside"
FIRST = (5, 10, 30)
CONVERSATIONS = 2
LIMITS = {"precision": 80.0, "recall": 60.0, "clean turns": 90.0}
"""Targets of the profile `balanced` on PrecisionMemBench, in percent."""

CHOSEN_HEADS = ("", "precision", "recall", "F1", "clean turns", "outdated, foreign or out of scope", "injected")


@dataclass(frozen=True, slots=True)
class Measured:
    """The part of a result that comes from one set."""

    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    series: tuple[Series, ...] = ()


def run(options: Options, progress: Progress) -> Result:
    """Measure the sets in the folder that the options name."""
    statements, conversations = _sets(options)
    parts = []
    if statements:
        parts.append(_precision_mem_bench(statements, progress))
    if conversations:
        parts.append(_locomo(conversations, progress))
    return Result(
        name=NAME,
        title="Data sets by other authors",
        method=(
            "PrecisionMemBench, content of the beliefs only, and LoCoMo, recall of the evidence only, through the "
            "whole service without a chat model, every task in its own session. mem0 has the same embedder and keyword "
            "vectors and no language model; its threshold is fitted on one half of the tasks and scored on the other, "
            f"{SPLITS} times."
        ),
        checks=tuple(check for part in parts for check in part.checks),
        series=tuple(series for part in parts for series in part.series),
        tables=tuple(table for part in parts for table in part.tables),
        notes=(_versions(), *(note for part in parts for note in part.notes)),
    )


def _sets(options: Options) -> tuple[LabelledWorld | None, tuple[LabelledWorld, ...]]:
    """Return PrecisionMemBench and conversations of LoCoMo. Raise `BenchError` if there is neither."""
    if options.data is None:
        raise BenchError(f"{NAME} needs --data FOLDER with PrecisionMemBench or LoCoMo; see docs/outside-sets.md")
    place = folder_of(precision_mem_bench.CASES, options.data)
    conversations = folder_of(locomo.FILE, options.data)
    if place is None and conversations is None:
        files = f"{precision_mem_bench.CASES} or {locomo.FILE}"
        raise BenchError(f"{options.data}: no {files} in this folder or below; see docs/outside-sets.md")
    most = None if options.full else 1 if options.quick else CONVERSATIONS
    return (
        precision_mem_bench.read_precision_mem_bench(place) if place else None,
        locomo.read_locomo(conversations, most) if conversations else (),
    )


def _versions() -> str:
    version = peer.installed()
    beside = f"mem0 {version}" if version else f"peer not installed (`{peer.INSTALL}`)"
    card = read_relevance_model().card
    return f"Embedder {PROFILE.name}, relevance model {card['version']} (sha256 {card['sha256'][:12]}), {beside}."


def _precision_mem_bench(world: LabelledWorld, progress: Progress) -> Measured:
    runs = asyncio.run(injected([world], progress))
    scores = {name: score_of(chosen([world], found)) for name, found in runs.items()}
    found = dict(scores)
    series = [Series.of(f"ours, {BALANCED}", [run.elapsed_ms for run in runs[BALANCED]])]
    if peer.installed():
        answers = peer.ask_peer([world], progress)
        found |= {
            "mem0, filter for outdated ones, fitted": cross_fitted(answers.filtered),
            "mem0, no filter, fitted": cross_fitted(answers.unfiltered),
            "mem0, filter, its defaults": score_of((one.task, one.ids) for one in answers.defaults),
        }
        series.append(Series.of("mem0, one search", answers.spent))
    total = scores[BALANCED]
    rows = tuple(_chosen_row(name, score, total.tasks) for name, score in found.items())
    title = (
        f"{world.name}, content only: {len(world.memories)} beliefs, {total.tasks} cases, {total.tasks - total.empty} "
        f"with {total.expected} expected ids"
    )
    return Measured(
        checks=_checks(total),
        series=tuple(series),
        tables=(Table(title=title, heads=CHOSEN_HEADS, rows=rows),),
        notes=_fallback_note(world.name, runs),
    )


def _checks(score: Score) -> tuple[Check, ...]:
    measured = {"precision": score.precision, "recall": score.recall, "clean turns": score.clean_turns}
    return tuple(
        Check(
            name=f"PrecisionMemBench, {name}",
            measured=round(100 * (measured[name] or 0.0), 1),
            limit=limit,
            unit="%",
            at_least=True,
        )
        for name, limit in LIMITS.items()
    )


def _chosen_row(name: str, score: Score, tasks: int) -> tuple[str, ...]:
    """Return a row; numbers summed over splits are shown as of one run over all tasks."""
    numbers = (score.forbidden * tasks / score.tasks, score.chosen * tasks / score.tasks)
    shares = (score.precision, score.recall, score.f1, score.clean_turns)
    return (name, *(_share(value) for value in shares), *(f"{number:.0f}" for number in numbers))


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _locomo(worlds: Sequence[LabelledWorld], progress: Progress) -> Measured:
    found = asyncio.run(orders(worlds, progress))
    ranked: dict[str, Sequence[Ranked]] = {
        "ours, order of the search": found.search,
        "ours, order of the relevance model": found.relevance_model,
    }
    if peer.installed():
        ranked["mem0"] = peer.ask_peer(worlds, progress).filtered
    runs = asyncio.run(injected(worlds, progress))
    tasks = sum(len(world.tasks) for world in worlds)
    about = f"LoCoMo, {len(worlds)} conversations, {tasks} questions"
    order = Table(
        title=f"{about}: share of the evidence among the first",
        heads=("", *map(str, FIRST)),
        rows=tuple((name, *(_share(share_found(one, first)) for first in FIRST)) for name, one in ranked.items()),
    )
    scores = {name: score_of(chosen(worlds, one)) for name, one in runs.items()}
    given = Table(
        title=f"{about}: injected",
        heads=("", "share of the evidence", "precision", "memories per question"),
        rows=tuple(
            (name, _share(one.recall), _share(one.precision), f"{one.chosen / max(1, one.tasks):.2f}")
            for name, one in scores.items()
        ),
    )
    return Measured(tables=(order, given), notes=_fallback_note("LoCoMo", runs))


def _fallback_note(about: str, runs: Mapping[str, Sequence[TaskRun]]) -> tuple[str, ...]:
    """Warn about answers that the relevance model did not choose, so that nobody takes them for its own."""
    number = sum(fallen_back(name, run) for name, found in runs.items() for run in found)
    return (f"{about}: {number} answers fell back to search scores; run again on a calmer machine.",) if number else ()
