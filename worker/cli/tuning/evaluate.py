"""`meeseeks eval` and `meeseeks eval compare`: measure injection on labelled tasks, and compare two evaluations."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from worker.bootstrap.opening import utc_now
from worker.cli.local import open_local, quiet_settings_of
from worker.cli.output import printed_as_json, say, show, table
from worker.cli.progress import progress_bar
from worker.cli.running import run_async
from worker.cli.settings import value_of
from worker.domain.errors import SettingsError
from worker.operations.client import OperationClient
from worker.settings.injection import Settings, Strategy
from worker.text.excerpts import shortened
from worker.tuning.evals.archive import FOLDER, EvaluationArchive
from worker.tuning.evals.comparison import Difference, EvaluationComparison, compare
from worker.tuning.evals.measures import Measure, Summary, summaries_of
from worker.tuning.evals.number_text import NAMES, difference, estimate, known, number, plain
from worker.tuning.evals.plan import EvaluationRequest, plan_of
from worker.tuning.evals.prompt_files import PromptFile, read_chooser
from worker.tuning.evals.resampling import DRAWS, SEED
from worker.tuning.evals.results import Report
from worker.tuning.evals.runner import evaluate

SHOWN_CHANGES = 20
"""Changed tasks in the table; `--json` prints all of them."""

SHOWN_CHARS = 60

Prompt = Annotated[Path | None, typer.Option("--prompt", help="Prompt file to use instead of the current one.")]
Model = Annotated[str | None, typer.Option(help="Chat model in litellm notation; use `none` for no model.")]
ApiBase = Annotated[str | None, typer.Option("--model-api-base", help="Base URL of the model server.")]
Chooser = Annotated[Strategy | None, typer.Option("--strategy", help="Selection strategy (default: from settings).")]
Worlds = Annotated[Path | None, typer.Option(help="Folder of one or more labelled worlds (default: the shipped ones).")]
Cases = Annotated[Path | None, typer.Option(help="Your own labelled cases, a JSON Lines file.")]
World = Annotated[list[str] | None, typer.Option(help="Only this labelled world; repeat for several.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Setting to override, KEY=VALUE; repeat for several.")]
Repeat = Annotated[int, typer.Option(min=1, max=100, help="Runs of each task.")]
Parallel = Annotated[int, typer.Option(min=1, max=64, help="Tasks run in parallel; use 1 to measure times.")]
MaxCost = Annotated[float | None, typer.Option(min=0.0, help="Stop after spending this many US dollars.")]
Deadline = Annotated[int | None, typer.Option(min=1, max=60_000, help="Time limit of each request in milliseconds.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Ignore cached runs.")]


evals = typer.Typer(invoke_without_command=True)


@evals.callback()
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
) -> None:
    """Measure what the service injects for labelled tasks, on temporary stores."""
    if context.invoked_subcommand is not None:
        return
    loaded = quiet_settings_of(context)

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
        return await measured(loaded, requested, file, fresh=fresh)

    report = run_async(work())
    summaries = summaries_of(report)
    measures = {name: plain(one) for name, one in summaries.items()}
    if not printed_as_json({**report.model_dump(mode="json"), "measures": measures, "fault": report.unanswered}):
        _show(report, summaries)
    if report.missing or report.unanswered:
        raise typer.Exit(1)


def comparison(
    context: typer.Context,
    before: Annotated[str, typer.Argument(help="Id of an evaluation, or a file with the output of `eval --json`.")],
    after: Annotated[str, typer.Argument(help="Id or file of the evaluation to compare with it.")],
) -> None:
    """Compare two evaluations: differences with confidence intervals, and the tasks that changed."""
    loaded = quiet_settings_of(context)

    async def work() -> tuple[Report, Report, EvaluationComparison]:
        archive = archive_of(loaded)
        first, second = archive.find(before), archive.find(after)
        return first, second, compared(first, second)

    first, second, found = run_async(work())
    if not printed_as_json(_comparison_fields(first, second, found)):
        _show_comparison(first, second, found)


async def measured(loaded: Settings, requested: EvaluationRequest, prompt: PromptFile | None, *, fresh: bool) -> Report:
    """Run an evaluation and save it under its id."""
    plan, archive = await plan_of(loaded, requested, prompt), archive_of(loaded)
    with progress_bar() as progress:
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


def _service(settings: Settings) -> AbstractAsyncContextManager[OperationClient]:
    """Open a service in this process."""
    return open_local(settings, with_model=settings.service.model != "none")


def compared(before: Report, after: Report) -> EvaluationComparison:
    """Compare two evaluations. Raise `SettingsError` if the model of one never answered."""
    for report in (before, after):
        if report.unanswered:
            raise SettingsError(f"{report.id} measures no model: {report.unanswered}; run it again")
    return compare(before, after, np.random.default_rng(SEED), DRAWS)


def own_folder(loaded: Settings) -> tuple[Path, ...]:
    """Return the configured folder of prompts, if any."""
    return (loaded.service.prompts_dir,) if loaded.service.prompts_dir else ()


def archive_of(loaded: Settings) -> EvaluationArchive:
    return EvaluationArchive(loaded.service.home / FOLDER)


def places(worlds: Path | None, cases: Path | None) -> Path | None:
    """Return the path of the labelled tasks. Raise `SettingsError` if both are given or the path does not exist."""
    if worlds is not None and cases is not None:
        raise SettingsError("use either --worlds or --cases")
    path = worlds or cases
    if path is not None and not path.exists():
        raise SettingsError(f"no such file or folder: {path}")
    return path


def setting(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE. Raise `SettingsError` if there is no equals sign."""
    key, equals, value = text.partition("=")
    if not equals:
        raise SettingsError(f"--set {text}: use KEY=VALUE")
    return key.strip(), value_of(key.strip(), value.strip())


def _show(report: Report, summaries: Mapping[str, Summary]) -> None:
    everything = summaries[""]
    if report.unanswered:
        say(f"NOT MEASURED: {report.unanswered}")
    say(f"{_about(report)}, on {', '.join(report.setup.worlds)}")
    say(f"{len(report.runs)} runs, {report.cached} from cache\n")
    measures = [[NAMES[m], estimate(m, everything[m])] for m in everything]
    show(table(None, ["", "all tasks, with 95 % interval"], measures))
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
    say(f"\ncompare with: meeseeks eval compare {report.id} OTHER")


def _show_comparison(before: Report, after: Report, found: EvaluationComparison) -> None:
    rows = [[*difference_cells(one), one.direction.value] for one in found.differences]
    say(f"before: {before.id} ({_about(before)}); after: {after.id} ({_about(after)}); {found.tasks} tasks\n")
    show(table(None, ["", "before", "after", "difference", ""], rows))
    if found.only_before or found.only_after:
        say(f"ignored: {found.only_before} tasks only in the first evaluation, {found.only_after} only in the second")
    changed = []
    for change in found.changes[:SHOWN_CHANGES]:
        texts = _texts(after, change.world, change.added), _texts(before, change.world, change.removed)
        changed.append([change.direction.value, change.world, change.task, change.category, *texts])
    if changed:
        show(table(None, ["", "world", "task", "category", "added", "removed"], changed))
    more = len(found.changes) - len(changed)
    say(f"{len(found.changes)} tasks changed{f'; use --json for {more} more' if more > 0 else ''}")


def difference_cells(one: Difference) -> list[str]:
    """Return the name, both values and the difference of a measure as table cells."""
    before, after = number(one.measure, one.before), number(one.measure, one.after)
    return [NAMES[one.measure], before, after, difference(one)]


def _about(report: Report) -> str:
    strategy = report.setup.settings.get("strategy")
    by = report.setup.model or (f"{strategy}, no model" if strategy else "no model")
    return f"{report.setup.prompt}, {by}"


def _texts(report: Report, world: str, keys: Sequence[str]) -> str:
    texts = report.memories.get(world, {})
    return "; ".join(f"{key} {shortened(texts.get(key, ''), SHOWN_CHARS)}" for key in keys)


def _comparison_fields(before: Report, after: Report, found: EvaluationComparison) -> dict[str, Any]:
    """Return the JSON fields of a comparison."""
    counts = {"tasks": found.tasks, "only_before": found.only_before, "only_after": found.only_after}
    changes: list[dict[str, Any]] = []
    for change in found.changes:
        message = after.messages.get(change.world, {}).get(change.task)
        task = {"world": change.world, "task": change.task, "category": change.category, "message": message}
        changes.append({**task, "direction": change.direction, "added": change.added, "removed": change.removed})
    differences = {one.measure.value: _difference_fields(one) for one in found.differences}
    return {"before": before.id, "after": after.id, **counts, "differences": differences, "changes": changes}


def _difference_fields(one: Difference) -> dict[str, Any]:
    interval = {"low": known(one.low), "high": known(one.high)}
    values = {"before": one.before, "after": one.after, "difference": one.difference}
    return {**values, **interval, "direction": one.direction}
