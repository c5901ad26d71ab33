"""`meeseeks judge`: what the judge is, what it is worth on labelled tasks, and fitting it to a team's own."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from worker.adapters.judge_model import JudgeFile, JudgeModel, read_judge
from worker.adapters.judge_stand import open_stand
from worker.cli.options import AsJson, run, settings_of
from worker.cli.output import errors, print_json, say, show, table
from worker.errors import SettingsError
from worker.judging import Adjustment
from worker.judging_fit import (
    Effect,
    Scored,
    effect,
    fit,
    read_adjustment,
    unseen_effects,
    write_adjustment,
)
from worker.kinds import JudgePoint
from worker.settings import Settings
from worker.worlds import World, read_cases, read_worlds

judge = typer.Typer(no_args_is_help=True, help="The relevance model that decides where no other model is configured.")

Cases = Annotated[
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


@dataclass(frozen=True, slots=True)
class Fit:
    """What was fitted to all the tasks, and what fitting to a part of them does to the others."""

    tasks: int
    change: Adjustment
    point: JudgePoint
    before: Effect
    after: Effect


@judge.command("show")
def show_judge(context: typer.Context, as_json: AsJson = False) -> None:
    """What the judge is: version, digest, thresholds, and what was fitted to your own labels."""
    settings = settings_of(context, as_json=as_json)

    async def work() -> tuple[JudgeFile, Adjustment | None]:
        file = read_judge()
        return file, read_adjustment(settings.service.home, file.judge)

    file, change = run(work(), as_json=as_json)
    facts = {name: value for name, value in file.card.items() if name not in ("columns", "thresholds")}
    facts |= {"columns": len(file.judge.columns), "point": settings.memory_injection.judge_point.value}
    facts |= {"fitted": asdict(change) if change else None}
    thresholds = {point.value: asdict(threshold) for point, threshold in file.judge.thresholds.items()}
    if as_json:
        print_json({**facts, "thresholds": thresholds})
        return
    show(table(None, ["", ""], [[name, _told(value)] for name, value in facts.items()]))
    rows = [[name, f"{values['opens']:.3f}", f"{values['keeps']:.3f}"] for name, values in thresholds.items()]
    show(table("thresholds: the likeliest must reach the first, each the second", ["point", "opens", "keeps"], rows))


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(part)}" for name, part in value.items())
    return "nothing" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


@judge.command("eval")
def eval_judge(context: typer.Context, cases: Cases, as_json: AsJson = False) -> None:
    """What the judge would inject for labelled tasks, at each of its points."""
    settings = settings_of(context, as_json=as_json)

    async def work() -> dict[str, Effect]:
        file = read_judge()
        change = read_adjustment(settings.service.home, file.judge) or Adjustment()
        scored = await _scored(file, _worlds(cases), quiet=as_json)
        most = settings.memory_injection.max_items
        return {
            point.value: effect(scored, [change] * len(scored), threshold, most)
            for point, threshold in file.judge.thresholds.items()
        }

    effects = run(work(), as_json=as_json)
    if as_json:
        print_json({name: asdict(found) for name, found in effects.items()})
        return
    rows = [[WORDS[name], *(f"{asdict(found)[name]:.3f}" for found in effects.values())] for name in WORDS]
    show(table(str(cases), ["", *effects], rows))


@judge.command("fit")
def fit_judge(
    context: typer.Context,
    cases: Cases,
    write: Annotated[
        bool, typer.Option("--write", help="Keep what was fitted; services take it when they start.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fit the judge's last step to your own labelled tasks; the effect is measured on tasks that were left out."""
    settings = settings_of(context, as_json=as_json)

    async def work() -> tuple[Fit, JudgeFile]:
        file = read_judge()
        return _fitted(settings, file, await _scored(file, _worlds(cases), quiet=as_json)), file

    found, file = run(work(), as_json=as_json)
    path = write_adjustment(settings.service.home, file.judge, found.change) if write else None
    if as_json:
        print_json({**asdict(found), "written": str(path) if path else None})
        return
    before, after = asdict(found.before), asdict(found.after)
    rows = [[words, f"{before[name]:.3f}", f"{after[name]:.3f}"] for name, words in WORDS.items()]
    show(table(f"{found.tasks} tasks, point {found.point}", ["on tasks left out", "as it ships", "fitted"], rows))
    say(f"written to {path}; services take it when they start" if path else "nothing written; --write keeps it")


def _fitted(settings: Settings, file: JudgeFile, scored: Sequence[Scored]) -> Fit:
    point, most = settings.memory_injection.judge_point, settings.memory_injection.max_items
    change = fit(scored)
    before, after = unseen_effects(scored, file.judge.thresholds[point], most)
    return Fit(len(scored), change, point, before, after)


def _worlds(cases: Path) -> tuple[World, ...]:
    return read_worlds(cases) if cases.is_dir() else (read_cases(cases),)


async def _scored(file: JudgeFile, worlds: Sequence[World], *, quiet: bool) -> list[Scored]:
    """The tasks with their scores, on a store of their own."""
    model = JudgeModel(file)
    found: list[Scored] = []
    with (
        tempfile.TemporaryDirectory(prefix="meeseeks-judge-") as folder,
        Progress(console=errors, disable=quiet, transient=True) as progress,
    ):
        bar = progress.add_task("judging", total=sum(len(world.tasks) for world in worlds))
        async with open_stand(Path(folder)) as stand:
            for world in worlds:
                if not world.memories:
                    raise SettingsError(f"{world.name}: there are no memories to judge, only tasks")
                for case in await stand.cases(world, lambda: progress.advance(bar)):
                    scores = await model.scores(case.judged) if case.judged else None
                    found.append(Scored(case, scores))
    model.close()
    return found
