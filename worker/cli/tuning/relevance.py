"""`meeseeks eval relevance`: shows, evaluates, fits and compares the relevance model."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.adapters.models.relevance_file import RelevanceFile, read_relevance_model
from worker.cli.local import quiet_settings_of
from worker.cli.output import printed_as_json, say, show, table
from worker.cli.running import run_async
from worker.domain.kinds import RelevanceProfile
from worker.relevance.adjustment import read_adjustment
from worker.relevance.model import Adjustment
from worker.settings.injection import Settings, Strategy
from worker.tuning.evals.measures import Measure, MeasureTable
from worker.tuning.evals.plan import EvaluationRequest
from worker.tuning.evals.results import Report
from worker.tuning.relevance_fit import RelevanceFit, effect
from worker.tuning.relevance_measures import ChoiceEffect, Rater, RaterScore, rater_scores

from .evaluate import ApiBase, MaxCost, measured
from .relevance_common import (
    Labelled,
    cell,
    effect_rows,
    fit_fields,
    fitted,
    kept,
    scored_tasks,
    show_fit,
    worlds_of,
)

relevance_model = typer.Typer(
    no_args_is_help=True, help="Show, evaluate and fit the built-in model that decides if no other model is configured."
)

COMPARED = ("precision", "recall", "clean", "forbidden", "items")


@relevance_model.command("show")
def show_relevance_model(context: typer.Context) -> None:
    """Show the version, digest, thresholds and your own fit of the relevance model."""
    settings = quiet_settings_of(context)

    async def work() -> tuple[RelevanceFile, Adjustment | None]:
        file = read_relevance_model()
        return file, read_adjustment(settings.service.home, file.relevance_model)

    file, change = run_async(work())
    facts = {name: value for name, value in file.card.items() if name not in ("columns", "thresholds")}
    facts |= {"columns": len(file.relevance_model.columns), "point": settings.memory_injection.relevance_profile.value}
    facts |= {"fitted": asdict(change) if change else None}
    thresholds = {point.value: asdict(threshold) for point, threshold in file.relevance_model.thresholds.items()}
    if printed_as_json({**facts, "thresholds": thresholds}):
        return
    show(table(None, ["", ""], [[name, _text(value)] for name, value in facts.items()]))
    rows = [[name, f"{values['opens']:.3f}", f"{values['keeps']:.3f}"] for name, values in thresholds.items()]
    show(table("thresholds", ["profile", "best memory needs", "each memory needs"], rows))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    return "none" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


@relevance_model.command("eval")
def evaluate_relevance_model(
    context: typer.Context,
    cases: Labelled,
    cues: Annotated[bool, typer.Option("--cues", help="Read the cues of the worlds in a folder, too.")] = False,
) -> None:
    """Measure what each relevance profile would inject for labelled tasks."""
    settings = quiet_settings_of(context)

    async def work() -> dict[str, ChoiceEffect]:
        file = read_relevance_model()
        change = read_adjustment(settings.service.home, file.relevance_model) or Adjustment()
        scored = await scored_tasks(file, worlds_of(cases, cues=cues))
        most = settings.memory_injection.max_items
        return {
            point.value: effect(scored, [change] * len(scored), threshold, most)
            for point, threshold in file.relevance_model.thresholds.items()
        }

    effects = run_async(work())
    if printed_as_json({name: asdict(found) for name, found in effects.items()}):
        return
    names, rows = effect_rows(effects)
    show(table(str(cases), ["", *names], rows))


@relevance_model.command("fit")
def fit_relevance_model(
    context: typer.Context,
    cases: Labelled,
    write: Annotated[bool, typer.Option("--write", help="Save the fit if it helps; restart to use it.")] = False,
) -> None:
    """Fit the last step of the model to your labelled tasks, and measure the effect on held-out tasks."""
    settings = quiet_settings_of(context)

    async def work() -> tuple[RelevanceFit, RelevanceFile]:
        file = read_relevance_model()
        scored = await scored_tasks(file, worlds_of(cases))
        return fitted(settings, file, scored), file

    found, file = run_async(work())
    path = kept(settings, file, found) if write else None
    if not printed_as_json(fit_fields(found, path)):
        show_fit(found, path)


@dataclass(frozen=True, slots=True)
class RelevanceComparison:
    """The relevance model, the search scores and optionally another model, on the same labelled tasks.

    `missing` counts tasks that the other model was not asked because `max_cost` was reached.
    """

    tasks: int
    point: RelevanceProfile
    rater_scores: Mapping[Rater, RaterScore]
    model: str | None = None
    effect: ChoiceEffect | None = None
    missing: int = 0


@relevance_model.command("compare")
def compare_relevance_model(
    context: typer.Context,
    cases: Labelled,
    model: Annotated[str | None, typer.Option(help="Model to compare with (default: the configured one).")] = None,
    model_api_base: ApiBase = None,
    max_cost: MaxCost = None,
) -> None:
    """Compare the relevance model with the search scores and another model on the same labelled tasks."""
    settings = quiet_settings_of(context)

    async def work() -> RelevanceComparison:
        found = await _compared(settings, cases)
        name = model or settings.service.model or "none"
        if name == "none":
            return found
        requested = EvaluationRequest(
            model=name, model_api_base=model_api_base, strategy=Strategy.AUTO, worlds=cases, max_cost=max_cost
        )
        report = await measured(settings, requested, None, fresh=False)
        return replace(found, model=report.setup.model, effect=_effect_of(report), missing=report.missing)

    found = run_async(work())
    if not printed_as_json(_comparison_fields(found)):
        _show_comparison(found)


async def _compared(settings: Settings, cases: Path) -> RelevanceComparison:
    file, injection = read_relevance_model(), settings.memory_injection
    change = read_adjustment(settings.service.home, file.relevance_model) or Adjustment()
    scored = await scored_tasks(file, worlds_of(cases))
    threshold = file.relevance_model.thresholds[injection.relevance_profile]
    found = rater_scores([one.rated(change) for one in scored], threshold, injection.max_items)
    return RelevanceComparison(len(scored), injection.relevance_profile, found)


def _effect_of(report: Report) -> ChoiceEffect:
    """Return the measures of an evaluation that the relevance model has too."""
    found = MeasureTable.of(report.runs)
    return ChoiceEffect(
        found.value(Measure.PRECISION),
        found.value(Measure.RECALL),
        found.value(Measure.CLEAN),
        found.value(Measure.FORBIDDEN) or 0.0,
        found.value(Measure.ITEMS) or 0.0,
    )


def _comparison_fields(found: RelevanceComparison) -> dict[str, Any]:
    model = {"name": found.model, "missing": found.missing, "effect": found.effect and asdict(found.effect)}
    return {
        "tasks": found.tasks,
        "point": found.point,
        "raters": {rater.value: asdict(standing) for rater, standing in found.rater_scores.items()},
        "model": model if found.model else None,
    }


def _show_comparison(found: RelevanceComparison) -> None:
    rows = [
        [rater.value, cell(one.candidates), cell(one.tasks), *_cells(one.effect)]
        for rater, one in found.rater_scores.items()
    ]
    if found.model and found.effect:
        rows.append([found.model, "-", "-", *_cells(found.effect)])
    columns = ["", "AUROC of memories", "AUROC of tasks", *COMPARED]
    show(table(f"{found.tasks} tasks, profile {found.point}", columns, rows))
    say("search scores use the threshold that keeps as many tasks clean as the relevance model does")
    if found.missing:
        say(f"STOPPED: {found.model} was not asked {found.missing} of the tasks; --max-cost was reached")


def _cells(effect: ChoiceEffect) -> list[str]:
    values = asdict(effect)
    return [cell(values[name]) for name in COMPARED]
