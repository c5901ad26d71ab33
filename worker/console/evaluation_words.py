"""Evaluations in words and pictures: the measures with their intervals, and how long the answers took. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import BaseModel

from worker.ports.evaluations import EstimatedMeasure, EvaluationPhase, EvaluationResult, EvaluationState
from worker.settings.selection import Strategy

from .request_words import MARKS, Mark
from .words import counted, milliseconds

NAMES: Mapping[str, str] = {
    "precision": "precision: given memories that are right",
    "recall_essential": "recall: needed memories that are given",
    "clean_turn_rate": "clean turns: nothing needed, nothing given",
    "forbidden_rate": "turns with a forbidden memory",
    "fallback_rate": "fallbacks",
    "items_per_turn": "memories a turn",
    "p50_ms": "time, half of the answers",
    "p95_ms": "time, 95 % of the answers",
    "tokens_per_turn": "tokens a turn",
    "cost_per_turn": "dollars a turn",
}
PLOTTED = ("precision", "recall_essential", "clean_turn_rate", "forbidden_rate", "fallback_rate")
BY_CATEGORY = PLOTTED[:4]
TIMES = ("p50_ms", "p95_ms")

STRATEGIES: Mapping[Strategy, str] = {
    Strategy.AUTO: "what the settings say",
    Strategy.RELEVANCE: "the relevance model",
    Strategy.DETERMINISTIC: "search scores",
    Strategy.LLM: "the chat model",
    Strategy.DECISION: "the decision model",
}
SETS: Mapping[str, str] = {"own": "own labelled cases", "shipped": "all shipped worlds"}

WIDTH = 1000
"""Width of a picture."""

HEIGHT = 180
"""Height of the curve of times."""


class Whisker(BaseModel):
    """A rate in the picture: its place and its interval's, in thousandths of the width."""

    name: str
    at: float
    low: float | None
    high: float | None


class MeasureRow(BaseModel):
    """A measure as text, with its interval."""

    name: str
    value: str
    interval: str


class CategoryRow(BaseModel):
    """The rates of a category, in the order of `BY_CATEGORY`."""

    name: str
    values: list[str]


class TimeCurve(BaseModel):
    """Which share of the answers was there after which time: the points of a curve."""

    points: str
    most_ms: float
    half_ms: float
    late_ms: float


class EvaluationRow(BaseModel):
    """An evaluation in the list."""

    id: str
    mark: Mark
    cases: str
    chooser: str
    own_prompt: bool
    settings: str
    began: datetime
    progress: str
    share: int
    running: bool
    comparable: bool
    precision: str
    recall: str
    clean: str


class EvaluationPicture(BaseModel):
    """What came out, as pictures and tables."""

    report: str
    about: str
    warnings: list[str]
    whiskers: list[Whisker]
    rows: list[MeasureRow]
    heads: list[str]
    categories: list[CategoryRow]
    curve: TimeCurve | None


def row_of(state: EvaluationState) -> EvaluationRow:
    measures = state.result.measures if state.result else {}
    precision, recall, clean = (_value(name, measures.get(name)) for name in PLOTTED[:3])
    return EvaluationRow(
        id=state.id,
        mark=_mark(state),
        cases=SETS.get(state.order.cases, state.order.cases),
        chooser=STRATEGIES[state.order.strategy],
        own_prompt=state.order.prompt is not None,
        settings=_settings(state.saved),
        began=state.began,
        progress=f"{state.done:,} of {counted(state.total, 'task', 'tasks')}" if state.total else "preparing",
        share=round(100 * state.done / state.total) if state.total else 0,
        running=state.phase is EvaluationPhase.RUNNING,
        comparable=state.result is not None,
        precision=precision,
        recall=recall,
        clean=clean,
    )


def _settings(saved: Sequence[str] | None) -> str:
    """Return which settings were used."""
    if saved is None:
        return "those of the settings file only"
    if not saved:
        return "those of the settings file; none were saved"
    return f"those in force for all agents, {len(saved)} of them saved: {', '.join(saved)}"


def _mark(state: EvaluationState) -> Mark:
    incomplete = state.result is not None and bool(state.result.missing or state.result.fault)
    kind, words = {
        EvaluationPhase.RUNNING: ("none", "Running"),
        EvaluationPhase.DONE: ("warn", "Incomplete") if incomplete else ("good", "Done"),
        EvaluationPhase.STOPPED: ("warn", "Stopped"),
        EvaluationPhase.FAILED: ("bad", "Failed"),
    }[state.phase]
    return Mark(kind=kind, shape=MARKS[kind], words=words)


def picture_of(result: EvaluationResult) -> EvaluationPicture:
    by = result.model or "no model"
    cached = f", {result.cached:,} of them known from earlier evaluations" if result.cached else ""
    return EvaluationPicture(
        report=result.report,
        about=f"{result.prompt}, {by}; {counted(result.runs, 'task', 'tasks')}{cached}.",
        warnings=[text for text in (result.fault, _missing(result)) if text],
        whiskers=[_whisker(name, result.measures[name]) for name in PLOTTED if name in result.measures],
        rows=[_row(name, one) for name, one in result.measures.items()],
        heads=[NAMES[name].partition(":")[0] for name in BY_CATEGORY],
        categories=[
            CategoryRow(name=name, values=[_value(key, found.get(key)) for key in BY_CATEGORY])
            for name, found in sorted(result.categories.items())
        ],
        curve=_curve(result.times_ms),
    )


def _missing(result: EvaluationResult) -> str | None:
    return f"{counted(result.missing, 'task was', 'tasks were')} not run: {result.stopped}." if result.missing else None


def _whisker(name: str, one: EstimatedMeasure) -> Whisker:
    low, high = (None if end is None else round(WIDTH * end, 1) for end in (one.low, one.high))
    return Whisker(name=NAMES[name], at=round(WIDTH * one.value, 1), low=low, high=high)


def _row(name: str, one: EstimatedMeasure) -> MeasureRow:
    known = one.low is not None and one.high is not None and one.low != one.high
    ends = f"{number_text(name, one.low)} to {number_text(name, one.high)}" if known else ""  # type: ignore[arg-type]
    return MeasureRow(name=NAMES.get(name, name), value=number_text(name, one.value), interval=ends)


def _value(name: str, one: EstimatedMeasure | None) -> str:
    return number_text(name, one.value) if one else ""


def number_text(name: str, value: float) -> str:
    if name in TIMES:
        return milliseconds(value)
    return (
        f"{value:.5f}" if name == "cost_per_turn" else f"{value:,.0f}" if name == "tokens_per_turn" else f"{value:.2f}"
    )


def _curve(times: Sequence[float]) -> TimeCurve | None:
    """Return the curve of the percentiles of the times."""
    if not times or times[-1] <= 0:
        return None
    most, last = times[-1], len(times) - 1
    points = [f"{WIDTH * spent / most:.1f},{HEIGHT * (1 - at / last):.1f}" for at, spent in enumerate(times)]
    return TimeCurve(points=" ".join(points), most_ms=most, half_ms=times[last // 2], late_ms=times[round(0.95 * last)])
