"""`meeseeks eval replay`: re-runs past requests with changes and compares the results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from hooks.contract import Mode
from worker.cli.backend import is_served, note_other_models, open_client
from worker.cli.options import Tenant, settings_of
from worker.cli.output import fail, printed_as_json, say, show, table, timing
from worker.cli.progress import progress_bar
from worker.cli.running import run_async
from worker.cli.tuning.evaluate import Set, own_folder, setting
from worker.domain.errors import MeeseeksError
from worker.operations.client import OperationClient
from worker.operations.registry import RECEIPTS, REPLAY
from worker.receipts.replay import summed_up
from worker.receipts.replay_models import REPLAY_S
from worker.settings.injection import Settings
from worker.triage.prompt_files import whole_prompt

from .receipts import Degraded, OneAgent, OneEngine, OneOutcome, OneReason, Session, Since, Until, filter_of

MAX_RECEIPTS = 1000
"""Receipts that one command can re-run."""

Prompt = Annotated[Path | None, typer.Option("--prompt", help="Prompt file to use instead of the current one.")]
Model = Annotated[str | None, typer.Option(help="Model to use instead of the configured one; use `none` for no model.")]
ApiBase = Annotated[
    str | None, typer.Option("--model-api-base", help="Base URL of the model server, if no service runs.")
]
OneMode = Annotated[Mode | None, typer.Option("--mode", help="Mode to use instead of the one in the request.")]
Current = Annotated[bool, typer.Option("--current", help="Use the current settings instead of those in the receipt.")]
DeadlineMs = Annotated[int | None, typer.Option(min=1, max=50_000, help="Time limit in milliseconds.")]


def replay(
    context: typer.Context,
    receipt_id: Annotated[str | None, typer.Argument(metavar="ID", help="Receipt id.")] = None,
    prompt: Prompt = None,
    model: Model = None,
    model_api_base: ApiBase = None,
    set_: Set = None,
    mode: OneMode = None,
    current: Current = False,
    deadline_ms: DeadlineMs = None,
    every: Annotated[bool, typer.Option("--all", help="Re-run all receipts that match the options below.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=MAX_RECEIPTS, help="Number of receipts for --all.")] = 100,
    session: Session = None,
    agent: OneAgent = None,
    outcome: OneOutcome = None,
    reason: OneReason = None,
    engine: OneEngine = None,
    degraded: Degraded = None,
    since: Since = None,
    until: Until = None,
    tenant: Tenant = "default",
) -> None:
    """Re-run a past request without side effects and show what changes."""
    if (receipt_id is None) is not every:
        fail("give either a receipt id or --all")
    settings = settings_of(context, model_api_base=model_api_base)
    _check_address(settings, model_api_base)
    where = filter_of(session, agent, outcome, reason, engine, degraded, since, until)

    async def work() -> dict[str, Any]:
        text = whole_prompt(prompt, *own_folder(settings))[1] if prompt else None
        changes: dict[str, Any] = {
            "prompt": text,
            "model": model,
            "mode": mode,
            "settings": dict(map(setting, set_ or ())),
        }
        changes |= {"current": current, "deadline_ms": deadline_ms}
        async with open_client(settings, with_model=True) as backend:
            await note_other_models(settings, backend)
            if receipt_id is not None:
                return await _one(backend, tenant, receipt_id, changes)
            listed = {"tenant": tenant, "limit": limit, "where": where, "brief": True}
            ids = [entry["id"] for entry in (await backend.call(RECEIPTS, listed))["receipts"]]
            return summed_up(await _many(backend, tenant, ids, changes)).model_dump(exclude={"not_run"})

    found = run_async(work())
    if not printed_as_json(found):
        _print_all(found) if every else _print_one(found)


def _check_address(settings: Settings, model_api_base: str | None) -> None:
    """End the command if a running service would ignore the address of the model."""
    if model_api_base is not None and is_served(settings):
        fail(
            "--model-api-base: a service is running and calls models itself; give the model an address in its settings"
            " file ([[service.models]] with name and api_base), or stop it first"
        )


async def _one(backend: OperationClient, tenant: str, receipt_id: str, changes: dict[str, Any]) -> dict[str, Any]:
    return await backend.call(REPLAY, {"tenant": tenant, "id": receipt_id, "changes": changes}, budget=REPLAY_S)


async def _many(
    backend: OperationClient, tenant: str, ids: Sequence[str], changes: dict[str, Any]
) -> list[dict[str, Any]]:
    """Replay one request at a time, so that timings are comparable; return errors in place of results."""
    found: list[dict[str, Any]] = []
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_bar(
        *columns,
    ) as progress:
        for receipt_id in progress.track(ids):
            try:
                found.append(await _one(backend, tenant, receipt_id, changes))
            except MeeseeksError as error:
                found.append({"receipt_id": receipt_id, "error": str(error)})
    return found


def _print_all(found: dict[str, Any]) -> None:
    show(table(None, ["", ""], [[name.replace("_", " "), value] for name, value in found.items() if name != "replays"]))
    rows = []
    for one in found["replays"]:
        if "error" in one:
            rows.append([one["receipt_id"], "failed", one["error"]])
        elif not one["same"]:
            before, after = one["before"]["chosen"], one["after"]["chosen"]
            rows.append([one["receipt_id"], ", ".join(before) or "nothing", ", ".join(after) or "nothing"])
    if rows:
        show(table("changed results", ["receipt", "before", "now"], rows))


def _print_one(found: dict[str, Any]) -> None:
    before, after = found["before"], found["after"]
    say("same memories" if found["same"] else "different memories")
    names = ("outcome", "reason", "engine", "degraded", "model", "prompt", "config_version")
    rows = [[name.replace("_", " "), before[name], after[name]] for name in names]
    rows.append(["time", *(timing(side["elapsed_ms"], side["stages"]) for side in (before, after))])
    show(table(None, ["", "before", "now"], rows))
    if found["tried"]:
        say(_prompt_use(found["tried"]))
    for note in after["notes"]:
        say(f"note: {note}")
    changed = [
        one for one in found["outcomes"] if _outcome(one, "before") != _outcome(one, "after") or one["place_after"]
    ]
    cells = [[_outcome(one, "before"), _outcome(one, "after"), one["id"], one["text"]] for one in changed]
    show(table(None, ["before", "now", "id", "memory"], cells))
    for one in found["changed_memories"]:
        say(f"{one['id']}: version {one['then']} then, {one['now'] or 'deleted'} now")
    if found["ignored"]:
        say(f"ignored settings that no longer exist: {', '.join(found['ignored'])}")


def _prompt_use(tried: dict[str, Any]) -> str:
    prompt = f"prompt {tried['prompt']} instead of {tried['replaces']}, for the strategy {tried['strategy']}"
    return prompt if tried["used"] else f"{prompt}: not used; try --set strategy={tried['strategy']}"


def _outcome(one: dict[str, Any], side: str) -> str:
    place = one[f"place_{side}"]
    return f"{one[side] or 'not found'}{f' ({place}.)' if place else ''}"
