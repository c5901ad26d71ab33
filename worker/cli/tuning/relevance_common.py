"""Scores labelled tasks with the relevance model, and prints its fits; shared by the tuning commands."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.adapters.models.relevance_file import RelevanceFile, RelevanceProcess
from worker.cli.output import say, show, table
from worker.cli.progress import progress_bar
from worker.domain.errors import SettingsError
from worker.relevance.adjustment import write_adjustment
from worker.settings.injection import Settings
from worker.tuning.labelled_worlds import LabelledWorld, read_cases, read_worlds
from worker.tuning.relevance_fit import RelevanceFit, Scored, fit_to
from worker.tuning.relevance_measures import ChoiceEffect
from worker.tuning.world_store import open_world_store

CASES_HELP = "Labelled tasks: a JSON Lines file or a folder of labelled worlds."
Labelled = Annotated[Path, typer.Option("--cases", help=CASES_HELP, exists=True)]

WORDS = {
    "precision": "precision",
    "recall": "recall of essential memories",
    "clean": "clean tasks",
    "forbidden": "tasks with a forbidden memory",
    "items": "memories per task",
    "loss": "log loss",
}


def worlds_of(cases: Path, *, cues: bool = False) -> tuple[LabelledWorld, ...]:
    """Return the labelled worlds of a folder, with `cues` with their cues, or of a file.

    Raise `SettingsError` if one has no memories.
    """
    worlds = read_worlds(cases, cues=cues) if cases.is_dir() else (read_cases(cases),)
    for world in worlds:
        if not world.memories:
            raise SettingsError(f"{world.name}: there are only tasks and no memories")
    return worlds


async def scored_tasks(file: RelevanceFile, worlds: Sequence[LabelledWorld]) -> list[Scored]:
    """Score the tasks with the relevance model, on a temporary store."""
    found: list[Scored] = []
    with (
        closing(RelevanceProcess(file)) as model,
        tempfile.TemporaryDirectory(prefix="meeseeks-relevance-") as folder,
        progress_bar() as progress,
    ):
        bar = progress.add_task("scoring", total=sum(len(world.tasks) for world in worlds))
        async with open_world_store(Path(folder)) as world_store:
            for world in worlds:
                for case in await world_store.cases(world, lambda: progress.advance(bar)):
                    scores = await model.scores(case.inputs) if case.inputs else None
                    found.append(Scored(case, scores))
    return found


def fitted(settings: Settings, file: RelevanceFile, scored: Sequence[Scored]) -> RelevanceFit:
    """Fit the model for the configured relevance profile. Raise `SettingsError` if there are too few labels."""
    injection = settings.memory_injection
    return fit_to(scored, file.relevance_model.thresholds, injection.relevance_profile, injection.max_items)


def kept(settings: Settings, file: RelevanceFile, found: RelevanceFit) -> Path | None:
    """Write a fit that helps and return its file."""
    return write_adjustment(settings.service.home, file.relevance_model, found.change) if found.helps else None


def fit_fields(found: RelevanceFit, path: Path | None) -> dict[str, Any]:
    """Return the JSON fields of a fit."""
    return {**asdict(found), "helps": found.helps, "written": str(path) if path else None}


def show_fit(found: RelevanceFit, path: Path | None) -> None:
    names, rows = effect_rows({"shipped": found.before, "fitted": found.after})
    show(table(f"relevance model: {found.tasks} tasks, profile {found.point}", ["on held-out tasks", *names], rows))
    unhelpful = "the fit does not help on held-out tasks, so the shipped model is kept"
    say(f"relevance model: {written_text(path) if found.helps else unhelpful}")


def written_text(path: Path | None) -> str:
    """Return whether a result was written, and where."""
    return f"written to {path}; restart the service to use it" if path else "nothing written; use --write to save it"


def effect_rows(effects: Mapping[str, ChoiceEffect]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the effects and a row for each measure."""
    fields = [asdict(effect) for effect in effects.values()]
    return list(effects), [[words, *(cell(found[name]) for found in fields)] for name, words in WORDS.items()]


def cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
