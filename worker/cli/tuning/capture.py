"""`meeseeks eval capture`: measures what capture finds in labelled conversations."""

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.bootstrap.opening import open_capture_reader
from worker.cli.local import quiet_settings_of
from worker.cli.output import printed_as_json, say, show, table
from worker.cli.progress import progress_bar
from worker.settings.injection import Settings
from worker.triage.prompt_files import default_prompts_dir
from worker.tuning.capture_cases import CaptureMeasures, CaptureRun, Ratio, measures, read_capture_cases
from worker.tuning.capture_runs import open_capture_runner
from worker.tuning.evals.plan import CASES

from .evaluate import ApiBase, Model

NO_MODEL = "none"
RATIOS = ("precision", "lenient", "recall", "left_alone", "near")
NAMES = {
    "precision": "operations that are right",
    "lenient": "the same, whatever their kind, target and date",
    "recall": "expected operations that were found",
    "left_alone": "conversations with nothing to keep that were left alone",
    "near": "memories to change that the model saw",
}


def eval_capture(
    context: typer.Context,
    model: Model = None,
    model_api_base: ApiBase = None,
    cases: Annotated[
        Path | None, typer.Option(help="File or folder of labelled conversations; default: the shipped ones.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many conversations, evenly chosen.")] = None,
) -> None:
    """Measure what capture finds in labelled conversations, on a temporary store.

    Without a model, only what people ask to be remembered is found.
    """
    settings = quiet_settings_of(context)
    if model_api_base is not None:
        service = settings.service.model_copy(update={"model_api_base": model_api_base})
        settings = Settings(service, settings.memory_injection)
    every = read_capture_cases(cases or default_prompts_dir() / CASES / "capture")
    chosen = every[:: max(1, -(-len(every) // limit))] if limit else every
    name, runs = asyncio.run(_run(settings, model, chosen))
    found = measures(runs)
    if not printed_as_json({"model": name, "cases": len(runs), **_fields(found)}):
        _show(name, runs, found)
    if found.failed:
        raise typer.Exit(1)


async def _run(settings: Settings, model: str | None, cases: Sequence[Any]) -> tuple[str, list[CaptureRun]]:
    async with AsyncExitStack() as stack:
        wanted = model or settings.service.model or NO_MODEL
        reader = None if wanted == NO_MODEL else await open_capture_reader(settings.service, stack, model)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meeseeks-capture-")))
        runner = await stack.enter_async_context(open_capture_runner(folder, reader))
        runs = []
        with progress_bar() as progress:
            bar = progress.add_task("reading", total=len(cases))
            for case in cases:
                runs.append(await runner.run(case))
                progress.advance(bar)
        return (reader.model if reader else NO_MODEL), runs


def _fields(found: CaptureMeasures) -> dict[str, Any]:
    return {**asdict(found), **{name: getattr(found, name).fields() for name in RATIOS}}


def _show(name: str, runs: Sequence[CaptureRun], found: CaptureMeasures) -> None:
    say(f"{len(runs)} conversations with {found.user_turns} turns of the user, model {name}: {found.calls} calls,")
    say(f"{found.tokens:,} tokens, {found.failed} without an answer\n")
    rows = [[NAMES[one], *_row(getattr(found, one))] for one in RATIOS if getattr(found, one).total]
    show(table(None, ["", "share", "95 %", "of"], rows))
    per_hundred = 100 * found.duplicates / max(1, found.user_turns)
    say(f"duplicates {found.duplicates} ({per_hundred:.1f} per 100 turns), unsupported {found.unsupported},")
    say(f"leaks {found.leaks}, dates wrong {found.wrong_dates}, dates missing {found.missing_dates}")
    say("left out: " + (", ".join(f"{reason} {number}" for reason, number in sorted(found.drops.items())) or "nothing"))


def _row(ratio: Ratio) -> list[str]:
    low, high = ratio.interval
    return [f"{ratio.value:.2f}", f"{low:.2f} to {high:.2f}", str(ratio.total)]
