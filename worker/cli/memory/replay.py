"""`meeseeks replay`: the same request again, with something changed, and what comes out otherwise."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hooks.contract import Mode
from worker.cli.backend import open_client
from worker.cli.options import AsJson, Tenant, run, settings_of
from worker.cli.output import errors, fail, milliseconds, print_json, say, show, table
from worker.cli.tuning.evaluate import Set, own_folder, setting
from worker.domain.errors import MeeseeksError, PromptError, SettingsError
from worker.operations.client import OperationClient
from worker.operations.receipts import REPLAY
from worker.operations.requests import RECEIPTS
from worker.receipts.replay import REPLAY_S, summed_up
from worker.triage.prompt_files import whole_prompt

from .receipts import Degraded, OneAgent, OneEngine, OneOutcome, OneReason, Session, Since, Until, filter_of

MOST = 1000
"""Receipts that one command runs again."""

Prompt = Annotated[
    Path | None, typer.Option("--prompt", help="Prompt file instead of the one in force; it may be an agent's own.")
]
Model = Annotated[str | None, typer.Option(help="Model instead of the configured one, or `none`.")]
OneMode = Annotated[Mode | None, typer.Option("--mode", help="Mode instead of the request's.")]
Current = Annotated[bool, typer.Option("--current", help="Settings of today instead of those of the receipt.")]
DeadlineMs = Annotated[int | None, typer.Option(min=1, max=50_000, help="Most milliseconds it may take this time.")]


def replay(
    context: typer.Context,
    receipt_id: Annotated[str | None, typer.Argument(metavar="ID", help="Whose request is run again.")] = None,
    prompt: Prompt = None,
    model: Model = None,
    set_: Set = None,
    mode: OneMode = None,
    current: Current = False,
    deadline_ms: DeadlineMs = None,
    every: Annotated[bool, typer.Option("--all", help="All receipts that the following options leave.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="With --all: how many, the newest first.")] = 100,
    session: Session = None,
    agent: OneAgent = None,
    outcome: OneOutcome = None,
    reason: OneReason = None,
    engine: OneEngine = None,
    degraded: Degraded = None,
    since: Since = None,
    until: Until = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Run a receipt's request again, at its time and without a trace, and show what comes out otherwise."""
    if (receipt_id is None) is not every:
        fail("say the id of a receipt, or --all", as_json=as_json)
    settings = settings_of(context, as_json=as_json)
    where = filter_of(session, agent, outcome, reason, engine, degraded, since, until)
    changes = _changes(prompt, own_folder(settings), model, set_, mode, current, deadline_ms, as_json=as_json)

    async def work() -> dict[str, Any]:
        async with open_client(settings, with_model=True) as backend:
            if receipt_id is not None:
                return await _one(backend, tenant, receipt_id, changes)
            listed = {"tenant": tenant, "limit": limit, "where": where, "brief": True}
            ids = [entry["id"] for entry in (await backend.call(RECEIPTS, listed))["receipts"]]
            return summed_up(await _many(backend, tenant, ids, changes, quiet=as_json)).model_dump(exclude={"not_run"})

    found = run(work(), as_json=as_json)
    if as_json:
        print_json(found)
    else:
        _tell_all(found) if every else _tell(found)


def _changes(
    prompt: Path | None,
    folders: Sequence[Path],
    model: str | None,
    set_: Sequence[str] | None,
    mode: Mode | None,
    current: bool,
    deadline_ms: int | None,
    *,
    as_json: bool,
) -> dict[str, Any]:
    try:
        text = whole_prompt(prompt, *folders)[1] if prompt else None
        values = dict(map(setting, set_ or ()))
    except (PromptError, SettingsError) as error:
        fail(str(error), as_json=as_json)
    changes = {"prompt": text, "model": model, "mode": mode, "settings": values, "current": current}
    return {**changes, "deadline_ms": deadline_ms}


async def _one(backend: OperationClient, tenant: str, receipt_id: str, changes: dict[str, Any]) -> dict[str, Any]:
    return await backend.call(REPLAY, {"tenant": tenant, "id": receipt_id, "changes": changes}, budget=REPLAY_S)


async def _many(
    backend: OperationClient, tenant: str, ids: Sequence[str], changes: dict[str, Any], *, quiet: bool
) -> list[dict[str, Any]]:
    """Replays one after the other, so that their times mean something; what fails says so in its place."""
    found: list[dict[str, Any]] = []
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, disable=quiet, transient=True) as progress:
        for receipt_id in progress.track(ids):
            try:
                found.append(await _one(backend, tenant, receipt_id, changes))
            except MeeseeksError as error:
                found.append({"receipt_id": receipt_id, "error": str(error)})
    return found


def _tell_all(found: dict[str, Any]) -> None:
    show(table(None, ["", ""], [[name.replace("_", " "), value] for name, value in found.items() if name != "replays"]))
    rows = []
    for one in found["replays"]:
        if "error" in one:
            rows.append([one["receipt_id"], "failed", one["error"]])
        elif not one["same"]:
            before, after = one["before"]["chosen"], one["after"]["chosen"]
            rows.append([one["receipt_id"], ", ".join(before) or "nothing", ", ".join(after) or "nothing"])
    if rows:
        show(table("what came out otherwise", ["receipt", "before", "now"], rows))


def _tell(found: dict[str, Any]) -> None:
    before, after = found["before"], found["after"]
    say("the same memories" if found["same"] else "other memories than before")
    names = ("outcome", "reason", "engine", "degraded", "model", "prompt", "config_version")
    rows = [[name.replace("_", " "), before[name], after[name]] for name in names]
    rows.append(["time", *(f"{side['elapsed_ms']:.0f} ms: {milliseconds(side['stages'])}" for side in (before, after))])
    show(table(None, ["", "before", "now"], rows))
    if tried := found["tried"]:
        say(_tried(tried))
    for note in after["notes"]:
        say(f"note: {note}")
    changed = [
        one for one in found["outcomes"] if _outcome(one, "before") != _outcome(one, "after") or one["place_after"]
    ]
    show(
        table(
            None,
            ["before", "now", "id", "memory"],
            [[_outcome(one, "before"), _outcome(one, "after"), one["id"], one["text"]] for one in changed],
        )
    )
    for one in found["changed_memories"]:
        say(f"{one['id']}: version {one['then']} then, " + (f"{one['now']} now" if one["now"] else "gone since"))
    if found["ignored"]:
        say(f"settings that there are no more: {', '.join(found['ignored'])}")


def _tried(tried: dict[str, Any]) -> str:
    place = f"{tried['prompt']} in the place of {tried['replaces']}, for the strategy {tried['strategy']}"
    if tried["used"]:
        return place
    return f"{place}: not used, the choice was not made by such a model (see --set strategy={tried['strategy']})"


def _outcome(one: dict[str, Any], side: str) -> str:
    place = one[f"place_{side}"]
    return f"{one[side] or 'not found'}{f' ({place}.)' if place else ''}"
