"""`meeseeks upkeep`: find duplicates, expired memories, changed values and memories that nobody uses."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from worker.cli.backend import call, open_client
from worker.cli.options import Tenant, settings_of
from worker.cli.output import answer, fail, printed_as_json, say, show, table
from worker.cli.progress import progress_bar
from worker.cli.running import run_async
from worker.domain.errors import StoreError
from worker.domain.upkeep import RUN_UNDO_S
from worker.operations.registry import UPKEEP, UPKEEP_SHOW, UPKEEP_UNDO
from worker.settings.injection import Settings
from worker.text.counts import counted

POLL_S = 0.3
BUDGET_S = 30.0

DOES = {"merge": "same as", "close": "expired", "propose": "replaces"}
DONE = {
    ("planned", "merge"): "would be merged",
    ("planned", "close"): "would be closed",
    ("planned", "propose"): "would be proposed",
    ("done", "merge"): "merged",
    ("done", "close"): "closed",
    ("done", "propose"): "proposed, see meeseeks review",
}


def upkeep(
    context: typer.Context,
    apply: Annotated[bool, typer.Option("--apply", help="Make the changes; without it, they are only listed.")] = False,
    last: Annotated[bool, typer.Option("--last", help="Show the latest report again.")] = False,
    undo: Annotated[str | None, typer.Option(help="Id of a run whose changes to undo.")] = None,
    tenant: Tenant = "default",
) -> None:
    """Find duplicates, expired memories, changed values and unused memories; with --apply, put them in order."""
    if sum((apply, last, undo is not None)) > 1:
        fail("use one of --apply, --last and --undo")
    if undo is not None:
        undone = call(context, UPKEEP_UNDO, {"tenant": tenant, "id": undo}, budget=RUN_UNDO_S)
        steps = sum(step["state"] == "undone" for step in undone["steps"])
        answer(undone, f"undone: {undo}, {counted(steps, 'change', 'changes')}; the next runs do not make them again")
        return
    payload = {"tenant": tenant}
    if last:
        report = call(context, UPKEEP_SHOW, payload)
    else:
        report = run_async(_run(settings_of(context), {**payload, "apply": apply}))
    if not printed_as_json(report):
        _show(report)


async def _run(settings: Settings, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Start a run, wait for its end and return its report. Raise `StoreError` if it fails."""
    async with open_client(settings) as client:
        started = (await client.call(UPKEEP, dict(payload), budget=BUDGET_S))["run"]
        asked = {"tenant": payload["tenant"], "id": started["id"]}
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with progress_bar(*columns) as progress:
            task = progress.add_task("reading", total=None)
            while True:
                report = await client.call(UPKEEP_SHOW, asked, budget=BUDGET_S)
                run = report["run"]
                if run["state"] == "failed":
                    raise StoreError(ending(run))
                if run["state"] != "running":
                    return report
                progress.update(task, description=run["phase"], completed=run["done"], total=run["total"] or None)
                await asyncio.sleep(POLL_S)


def _show(report: Mapping[str, Any]) -> None:
    run, texts = report["run"], report["texts"]
    rows = [_row(step, texts) for step in run["steps"]] if run["state"] != "running" else []
    if rows:
        show(table(None, ["", "id", "memory", "", "other"], rows, whole=2))
    if run["unused"]:
        unused = [[one["injected"], one["id"], texts.get(one["id"], "")] for one in run["unused"]]
        show(table("given often, never used", ["given", "id", "memory"], unused, whole=2))
    say(ending(run))


def _row(step: Mapping[str, Any], texts: Mapping[str, str]) -> list[str]:
    """Return what becomes of a memory, and its relation to the others."""
    state, kind = step["state"], step["kind"]
    others = " · ".join(texts.get(key, key) for key in step["others"]) or (step["until"] or "")[:10]
    became = DONE.get((state, kind), {"skipped": "changed meanwhile, left"}.get(state, state))
    return [became, step["memory"], texts.get(step["memory"], ""), DOES[kind], others]


def ending(run: Mapping[str, Any]) -> str:
    """Return in a line what came of a run, and what to do next."""
    if run["state"] == "running":
        return f"still running: {run['phase']}" + (f", {run['done']} of {run['total']}" if run["total"] else "")
    if run["state"] == "failed":
        back = f", or undo with: meeseeks upkeep --undo {run['id']}" if run["apply"] and run["steps"] else ""
        return f"upkeep failed: {run['error']}; run the command again to go on{back}"
    read = f"{counted(run['memories'], 'memory', 'memories')} read in {run['seconds']:.1f} s"
    left = f"; {run['left']} more are left for the next run" if run["left"] else ""
    if not run["steps"]:
        return f"{read}: nothing to put in order"
    if run["state"] == "undone":
        return f"{read}; this run was undone"
    if run["apply"]:
        return f"{read}{left}; undo with: meeseeks upkeep --undo {run['id']}"
    return f"{read}{left}; nothing was changed, make these changes with: meeseeks upkeep --apply"
