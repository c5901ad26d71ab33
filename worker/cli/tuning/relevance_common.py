"""What commands about the relevance model have in common: labelled tasks with its scores, and how a fit is told."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from worker.adapters.models.minilm import PROFILE
from worker.adapters.models.relevance_file import RelevanceFile, RelevanceProcess
from worker.cli.output import errors, say, show, table
from worker.domain.errors import SettingsError
from worker.domain.memory import EmbedderProfile
from worker.recall.thresholds import read_calibration
from worker.relevance.adjustment import write_adjustment
from worker.settings.injection import Settings
from worker.tuning.labelled_worlds import LabelledWorld, read_cases, read_worlds
from worker.tuning.relevance_fit import RelevanceFit, Scored, fit_to
from worker.tuning.relevance_measures import ChoiceEffect
from worker.tuning.world_store import open_world_store

Labelled = Annotated[
    Path,
    typer.Option("--cases", help="Labelled tasks: a file of JSON Lines, or a folder of labelled worlds.", exists=True),
]

WORDS = {
    "precision": "precision",
    "recall": "recall of essential",
    "clean": "clean turns",
    "forbidden": "tasks with something forbidden",
    "items": "items per task",
    "loss": "negative log likelihood",
}
"""Each measure of an effect."""


def worlds_of(cases: Path) -> tuple[LabelledWorld, ...]:
    """The labelled worlds in a folder, or the one in a file; each has memories. Raises `SettingsError`."""
    worlds = read_worlds(cases) if cases.is_dir() else (read_cases(cases),)
    for world in worlds:
        if not world.memories:
            raise SettingsError(f"{world.name}: there are no memories to judge, only tasks")
    return worlds


def thresholds_in_force(settings: Settings) -> EmbedderProfile:
    """The thresholds of the embedder that the relevance model is made for, as a service would take them now."""
    return read_calibration(settings.service.home, PROFILE)


async def scored_tasks(
    file: RelevanceFile, worlds: Sequence[LabelledWorld], profile: EmbedderProfile, *, quiet: bool
) -> list[Scored]:
    """The tasks with the relevance model's scores, on a store of their own behind the gate that `profile` says."""
    model = RelevanceProcess(file)
    found: list[Scored] = []
    with (
        tempfile.TemporaryDirectory(prefix="meeseeks-relevance-") as folder,
        Progress(console=errors, disable=quiet, transient=True) as progress,
    ):
        bar = progress.add_task("judging", total=sum(len(world.tasks) for world in worlds))
        async with open_world_store(Path(folder), profile) as world_store:
            for world in worlds:
                for case in await world_store.cases(world, lambda: progress.advance(bar)):
                    scores = await model.scores(case.inputs) if case.inputs else None
                    found.append(Scored(case, scores))
    model.close()
    return found


def fitted(settings: Settings, file: RelevanceFile, scored: Sequence[Scored]) -> RelevanceFit:
    """The model fitted at the point that is configured. Raises `SettingsError` where there are too few labels."""
    point, most = settings.memory_injection.relevance_profile, settings.memory_injection.max_items
    return fit_to(scored, file.relevance_model.thresholds, point, most)


def kept(settings: Settings, file: RelevanceFile, found: RelevanceFit) -> Path | None:
    """The file that a fit was written to; one that does not help is not written."""
    return write_adjustment(settings.service.home, file.relevance_model, found.change) if found.helps else None


def fit_fields(found: RelevanceFit, path: Path | None) -> dict[str, Any]:
    """A fit for programs."""
    return {**asdict(found), "helps": found.helps, "written": str(path) if path else None}


def show_fit(found: RelevanceFit, path: Path | None) -> None:
    """A fit for people."""
    columns = effect_rows({"as it ships": found.before, "fitted": found.after})
    show(
        table(
            f"relevance model: {found.tasks} tasks, point {found.point}", ["on tasks left out", *columns[0]], columns[1]
        )
    )
    if not found.helps:
        say(
            "relevance model: fitting makes the labels of tasks that were left out no likelier, so it stays as it ships"
        )
    elif path:
        say(f"relevance model: written to {path}; services take it when they start")
    else:
        say("relevance model: nothing written; --write keeps it")


def effect_rows(effects: Mapping[str, ChoiceEffect]) -> tuple[list[str], list[list[str]]]:
    """Names of effects, and a row for each measure."""
    fields = [asdict(effect) for effect in effects.values()]
    return list(effects), [[words, *(cell(found[name]) for found in fields)] for name, words in WORDS.items()]


def cell(value: float | None) -> str:
    """A number for people; a dash where there is nothing to count."""
    return "-" if value is None else f"{value:.3f}"
