"""`meeseeks eval capture`: measures what capture finds in labelled conversations."""

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
from worker.cli.running import run_async
from worker.settings.injection import Settings
from worker.triage.prompt_files import default_prompts_dir
from worker.tuning.capture_cases import (
    CaptureCase,
    CaptureMeasures,
    CaptureRun,
    Ratio,
    measures,
    read_capture_cases,
)
from worker.tuning.capture_noise import with_chatter
from worker.tuning.capture_runs import open_capture_runner
from worker.tuning.evals.plan import CASES

from .evaluate import ApiBase, Model

NO_MODEL = "none"
RATIOS = ("precision", "lenient", "recall", "left_alone", "near")
FAULTS = ("duplicates_per_turn", "wrong_of_dated", "unsupported_of_all", "leaked")
NAMES = {
    "precision": "operations that are right",
    "lenient": "the same, whatever their kind, target and date",
    "recall": "expected operations that were found",
    "left_alone": "conversations with nothing to keep that were left alone",
    "near": "memories to change that the model saw, of ten",
    "duplicates_per_turn": "duplicates for a turn of the user",
    "wrong_of_dated": "wrong dates, of those that were computed",
    "unsupported_of_all": "operations that no label supports",
    "leaked": "conversations of which a text that must not be kept was",
}


def eval_capture(
    context: typer.Context,
    model: Model = None,
    model_api_base: ApiBase = None,
    cases: Annotated[
        Path | None, typer.Option(help="File or folder of labelled conversations; default: the shipped ones.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many conversations, evenly chosen.")] = None,
    noise: Annotated[
        int | None, typer.Option(min=1, max=100, help="Read them once more, with so many times as much chatter.")
    ] = None,
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
    noisy = [with_chatter(case, every, noise) for case in chosen] if noise else []
    name, runs = run_async(_run(settings, model, [*chosen, *noisy]))
    found, again = measures(runs[: len(chosen)]), measures(runs[len(chosen) :]) if noise else None
    fields = {"model": name, "cases": len(chosen), **_fields(found)}
    if not printed_as_json(fields if again is None else {**fields, "noisy": {"times": noise, **_fields(again)}}):
        _show(name, len(chosen), found)
        if again is not None:
            say(f"\nwith {noise} times as much chatter: {_writes(again)} operations instead of {_writes(found)}")
            _show(name, len(noisy), again)
    if found.failed or (again is not None and again.failed):
        raise typer.Exit(1)


async def _run(settings: Settings, model: str | None, cases: Sequence[CaptureCase]) -> tuple[str, list[CaptureRun]]:
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


def _writes(found: CaptureMeasures) -> int:
    return found.precision.total


def _fields(found: CaptureMeasures) -> dict[str, Any]:
    return {**asdict(found), **{name: getattr(found, name).fields() for name in (*RATIOS, *FAULTS)}}


def _show(name: str, cases: int, found: CaptureMeasures) -> None:
    say(f"{cases} conversations with {found.user_turns} turns of the user, model {name}: {found.calls} calls,")
    say(f"{found.tokens:,} tokens, {found.failed} without an answer\n")
    rows = [[NAMES[one], *_row(getattr(found, one))] for one in (*RATIOS, *FAULTS) if getattr(found, one).total]
    show(table(None, ["", "share", "95 %", "of"], rows))
    for what, mean in (("calls", found.calls_per_session), ("tokens", found.tokens_per_session)):
        say(f"{what} in a conversation {mean.value:,.1f} ({mean.low:,.1f} to {mean.high:,.1f})")
    say(f"duplicates in 100 turns {100 * found.duplicates_per_turn.value:.1f}, dates missing {found.missing_dates}")
    say("left out: " + (", ".join(f"{reason} {number}" for reason, number in sorted(found.drops.items())) or "nothing"))


def _row(ratio: Ratio) -> list[str]:
    low, high = ratio.interval
    return [f"{ratio.value:.2f}", f"{low:.2f} to {high:.2f}", str(ratio.total)]
