"""`meeseeks eval` and `meeseeks compare`: what is injected for labelled tasks, and whether a change of it is chance."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import Progress

from worker.bootstrap.assembly import utc_now
from worker.bootstrap.core import open_core
from worker.cli.options import AsJson, run, settings_of
from worker.cli.output import errors, print_json, say, show, table
from worker.cli.settings import value_of
from worker.domain.errors import SettingsError
from worker.operations.client import LocalOperationClient, OperationClient
from worker.settings.injection import Settings, Strategy
from worker.tuning.evals.archive import FOLDER, EvaluationArchive, write_report
from worker.tuning.evals.comparison import Difference, EvaluationComparison, compare
from worker.tuning.evals.measures import Measure, summary
from worker.tuning.evals.number_text import NAMES, difference, estimate, known, number, plain
from worker.tuning.evals.page import Summaries, comparison_page, report_page
from worker.tuning.evals.planning import EvaluationRequest, plan_of
from worker.tuning.evals.prompt_files import PromptFile, read_chooser
from worker.tuning.evals.resampling import DRAWS
from worker.tuning.evals.results import Report
from worker.tuning.evals.runner import evaluate

SEED = 2026
"""Of every resampling, so that the same results always have the same intervals."""

SHOWN_CHANGES = 20
"""Changed tasks that the table for people shows; `--json` and `--html` have all of them."""

SHOWN_CHARS = 60

Prompt = Annotated[Path | None, typer.Option("--prompt", help="Prompt file instead of the one in force.")]
Model = Annotated[str | None, typer.Option(help="Chat model in litellm's notation; `none` does without.")]
ApiBase = Annotated[str | None, typer.Option("--model-api-base", help="Base address of the model server.")]
Chooser = Annotated[Strategy | None, typer.Option("--strategy", help="Who chooses; unset: as it is configured.")]
Worlds = Annotated[
    Path | None, typer.Option(help="Folder of labelled worlds, or of one; unset: those that are shipped.")
]
Cases = Annotated[Path | None, typer.Option(help="Your own cases in one file of JSON Lines.")]
World = Annotated[list[str] | None, typer.Option(help="Only this world; may be repeated.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="A setting, KEY=VALUE; may be repeated.")]
Repeat = Annotated[int, typer.Option(min=1, max=100, help="Times that each task is run.")]
Parallel = Annotated[int, typer.Option(min=1, max=64, help="Tasks at a time; 1 where times are to be measured.")]
MaxCost = Annotated[float | None, typer.Option(min=0.0, help="Most US dollars to spend; then it stops.")]
Deadline = Annotated[int | None, typer.Option(min=1, max=60_000, help="Deadline of every request.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run again what is known already.")]
Html = Annotated[Path | None, typer.Option(help="Write a page with charts and every fault to this file.")]


def evaluation(
    context: typer.Context,
    prompt: Prompt = None,
    model: Model = None,
    model_api_base: ApiBase = None,
    strategy: Chooser = None,
    worlds: Worlds = None,
    cases: Cases = None,
    world: World = None,
    settings: Set = None,
    repeat: Repeat = 1,
    parallel: Parallel = 4,
    max_cost: MaxCost = None,
    deadline_ms: Deadline = None,
    fresh: Fresh = False,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Measure what is injected for labelled tasks, through the whole service, on stores of their own."""
    loaded = settings_of(context, as_json=as_json)

    async def work() -> Report:
        requested = EvaluationRequest(
            model=model,
            model_api_base=model_api_base,
            strategy=strategy,
            worlds=places(worlds, cases),
            only=world or (),
            settings=dict(map(setting, settings or ())),
            repeat=repeat,
            parallel=parallel,
            max_cost=max_cost,
            deadline_ms=deadline_ms,
        )
        file = read_chooser(prompt, *own_folder(loaded)) if prompt else None
        return await measured(loaded, requested, file, fresh=fresh, quiet=as_json)

    report = run(work(), as_json=as_json)
    summaries = summaries_of(report)
    _write(html, lambda: report_page(report, summaries), as_json=as_json)
    if as_json:
        print_json(
            {**report.model_dump(mode="json"), "measures": {name: plain(one) for name, one in summaries.items()}}
        )
    else:
        _show(report, summaries)
    if report.missing:
        raise typer.Exit(1)


def comparison(
    context: typer.Context,
    before: Annotated[str, typer.Argument(help="Id of an evaluation, or a file that `eval --json` has printed.")],
    after: Annotated[str, typer.Argument(help="The one that is set against it.")],
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Set two evaluations against each other: paired differences with intervals, and the tasks that changed."""
    loaded = settings_of(context, as_json=as_json)

    async def work() -> tuple[Report, Report, EvaluationComparison]:
        archive = archive_of(loaded)
        first, second = archive.find(before), archive.find(after)
        return first, second, compared(first, second)

    first, second, found = run(work(), as_json=as_json)
    _write(html, lambda: comparison_page(first, second, found), as_json=as_json)
    print_json(comparison_fields(first, second, found)) if as_json else show_comparison(first, second, found)


async def measured(
    loaded: Settings, requested: EvaluationRequest, prompt: PromptFile | None, *, fresh: bool, quiet: bool
) -> Report:
    """Run an evaluation and keep it under its id."""
    plan = await plan_of(loaded, requested, prompt)
    archive = archive_of(loaded)
    with Progress(console=errors, disable=quiet, transient=True) as progress:
        task = progress.add_task(f"evaluating {plan.prompts[0].prompt.name}", total=plan.runs)
        report = await evaluate(
            plan,
            _service,
            archive=archive,
            fresh=fresh,
            advance=lambda done: progress.advance(task, done),
            now=utc_now(),
        )
    archive.keep(report)
    return report


@asynccontextmanager
async def _service(settings: Settings) -> AsyncIterator[OperationClient]:
    """A service in this process, without a model where none is wanted."""
    async with open_core(settings, with_model=settings.service.model != "none") as core:
        yield LocalOperationClient(core.operations)


def compared(before: Report, after: Report) -> EvaluationComparison:
    return compare(before, after, np.random.default_rng(SEED), DRAWS)


def own_folder(loaded: Settings) -> tuple[Path, ...]:
    """The folder of prompts that the service uses, where it is not the shipped one."""
    return (loaded.service.prompts_dir,) if loaded.service.prompts_dir else ()


def archive_of(loaded: Settings) -> EvaluationArchive:
    return EvaluationArchive(loaded.service.home / FOLDER)


def places(worlds: Path | None, cases: Path | None) -> Path | None:
    """Where the labelled tasks are. Raises `SettingsError` where both are said, or nothing is there."""
    if worlds is not None and cases is not None:
        raise SettingsError("say either --worlds or --cases")
    said = worlds or cases
    if said is not None and not said.exists():
        raise SettingsError(f"there is nothing at {said}")
    return said


def setting(text: str) -> tuple[str, Any]:
    """Key and value of KEY=VALUE. Raises `SettingsError`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise SettingsError(f"--set {text}: say KEY=VALUE")
    return key.strip(), value_of(key.strip(), value.strip())


def summaries_of(report: Report) -> Summaries:
    """Measures over all tasks, and of each category."""
    rng = np.random.default_rng(SEED)
    found = {"": summary(report.runs, rng, DRAWS)}
    for category in report.categories:
        found[category] = summary([run for run in report.runs if run.category == category], rng, DRAWS)
    return found


def _write(html: Path | None, page: Any, *, as_json: bool) -> None:
    async def work() -> None:
        if html is not None:
            write_report(html, page().encode())

    run(work(), as_json=as_json)


def _show(report: Report, summaries: Summaries) -> None:
    everything = summaries[""]
    say(f"{_about(report)}, on {', '.join(report.setup.worlds)}")
    say(f"{len(report.runs)} runs, {report.cached} of them known before\n")
    show(
        table(None, ["", "all tasks, with 95 % interval"], [[NAMES[m], estimate(m, everything[m])] for m in everything])
    )
    say("")
    heads = (Measure.PRECISION, Measure.RECALL, Measure.CLEAN, Measure.FORBIDDEN, Measure.ITEMS)
    rows = [
        [category, *("" if (one := found.get(m)) is None else number(m, one.value) for m in heads)]
        for category, found in summaries.items()
        if category
    ]
    show(table(None, ["by category", *(NAMES[m] for m in heads)], rows))
    if report.missing:
        say(f"STOPPED: {report.missing} tasks were not run; {report.stopped}")
    say(f"\nevaluation {report.id}; `meeseeks compare` sets another one against it")


def show_comparison(before: Report, after: Report, found: EvaluationComparison) -> None:
    rows = [
        [
            NAMES[one.measure],
            number(one.measure, one.before),
            number(one.measure, one.after),
            difference(one),
            one.direction.value,
        ]
        for one in found.differences
    ]
    say(f"{after.id} ({_about(after)}) against {before.id} ({_about(before)}), {found.tasks} tasks\n")
    show(table(None, ["", "before", "after", "difference", ""], rows))
    if found.only_before or found.only_after:
        say(f"left out: {found.only_before} tasks that only the first has, {found.only_after} that only the second has")
    changed = [
        [
            change.direction.value,
            *(change.world, change.task, change.category),
            _texts(after, change.world, change.added),
            _texts(before, change.world, change.removed),
        ]
        for change in found.changes[:SHOWN_CHANGES]
    ]
    if changed:
        show(table(None, ["", "world", "task", "category", "now as well", "no longer"], changed))
    more = len(found.changes) - len(changed)
    say(f"{len(found.changes)} tasks changed{f'; {more} more are in --json and --html' if more > 0 else ''}")


def _about(report: Report) -> str:
    strategy = report.setup.settings.get("strategy")
    by = report.setup.model or (f"{strategy}, no model" if strategy else "no model")
    return f"{report.setup.prompt}, {by}"


def _texts(report: Report, world: str, keys: Sequence[str]) -> str:
    texts = report.memories.get(world, {})
    return "; ".join(f"{key} {texts.get(key, '')[:SHOWN_CHARS]}" for key in keys)


def comparison_fields(before: Report, after: Report, found: EvaluationComparison) -> dict[str, Any]:
    """A comparison for programs."""
    return {
        "before": before.id,
        "after": after.id,
        "tasks": found.tasks,
        "only_before": found.only_before,
        "only_after": found.only_after,
        "differences": {one.measure.value: difference_fields(one) for one in found.differences},
        "changes": [
            {
                "world": change.world,
                "task": change.task,
                "category": change.category,
                "message": after.messages.get(change.world, {}).get(change.task),
                "direction": change.direction.value,
                "added": change.added,
                "removed": change.removed,
            }
            for change in found.changes
        ],
    }


def difference_fields(one: Difference) -> dict[str, Any]:
    return {
        "before": one.before,
        "after": one.after,
        "difference": one.difference,
        "low": known(one.low),
        "high": known(one.high),
        "direction": one.direction.value,
    }
