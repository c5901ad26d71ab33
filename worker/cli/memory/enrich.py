"""`meeseeks store enrich`: lets the configured model write cues for memories that have none."""

import sys
from contextlib import AsyncExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from worker.bootstrap.opening import open_cue_writer
from worker.cli.backend import open_client
from worker.cli.options import Tenant, settings_of
from worker.cli.output import fail, note, printed_as_json, say, wants_json
from worker.cli.progress import progress_bar
from worker.cli.running import run_async
from worker.domain.errors import SettingsError
from worker.operations.enrichment import Enrichment, EnrichmentLimits, EnrichmentPlan
from worker.settings.injection import Settings


def enrich(
    context: typer.Context,
    redo: Annotated[bool, typer.Option("--redo", help="Also replace cues that another prompt has written.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Most memories in this run.")] = None,
    max_cost: Annotated[float | None, typer.Option(min=0.0, help="Most US dollars to spend in this run.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Chat model (default: the configured one).")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Start without asking.")] = False,
    tenant: Tenant = "default",
) -> None:
    """Let the configured model write cues for memories that have none.

    It shows tokens and money before it starts. An interrupted run continues when started again.
    """
    settings = settings_of(context)
    done = run_async(_run(settings, tenant, EnrichmentLimits(redo, limit, max_cost), model, yes=yes))
    if not printed_as_json(done):
        _show(done)
    if done["stopped"]:
        raise typer.Exit(1)


async def _run(
    settings: Settings, tenant: str, limits: EnrichmentLimits, model: str | None, *, yes: bool
) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        writer, price = await open_cue_writer(settings.service, model, stack)
        if limits.max_cost is not None and price is None:
            raise SettingsError(f"the price of {writer.model} is unknown, so --max-cost cannot be kept; use --limit")
        client = await stack.enter_async_context(open_client(settings))
        run = Enrichment(client, writer, tenant, limits, price)
        memories = await run.pending(datetime.now(UTC))
        plan = run.plan(memories)
        if memories:
            _confirm(writer.model, plan, yes=yes)
        columns = (TextColumn("writing cues"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with progress_bar(*columns) as progress:
            task = progress.add_task("writing cues", total=len(memories))
            report = await run.run(memories, lambda number: progress.advance(task, number))
        fields = asdict(report)
        return {"model": writer.model, "prompt": writer.prompt_id, "planned": asdict(plan), **fields}


def _confirm(model: str, plan: EnrichmentPlan, *, yes: bool) -> None:
    """Show what the run takes, and ask whether to start."""
    cost = "at an unknown price" if plan.cost is None else f"about ${plan.cost:.4f}"
    text = (
        f"{plan.memories} memories, {plan.calls} calls of {model}: about {plan.input_tokens + plan.output_tokens:,} "
        f"tokens, {cost}"
    )
    if not wants_json():
        note(text)
    if yes:
        return
    if wants_json() or not sys.stdin.isatty():
        fail(f"nothing was started: {text}; use --yes to start")
    if not typer.confirm("Start?", default=True, err=True):
        raise typer.Exit(1)


def _show(done: dict[str, Any]) -> None:
    if not done["planned"]["memories"]:
        say("every memory has cues")
        return
    cost = "" if done["cost"] is None else f", ${done['cost']:.4f}"
    tokens = done["input_tokens"] + done["output_tokens"]
    say(f"{done['enriched']} memories got {done['cues']} cues in {done['calls']} calls: {tokens:,} tokens{cost}")
    if done["left"]:
        say(f"{done['left']} got none; run the command again to try them once more")
    if done["stopped"]:
        say(f"stopped: {done['stopped']}; what is written is kept")
