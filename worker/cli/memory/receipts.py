"""`meeseeks receipt`: which requests there were, and why each memory came or did not."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from hooks.contract import Engine, Outcome, Reason
from worker.cli.backend import open_client
from worker.cli.options import AsJson, Tenant, run, settings_of
from worker.cli.output import print_json, say, scores, show, summary, table
from worker.domain.memory import CandidateVerdict
from worker.operations.client import OperationClient
from worker.operations.requests import RECEIPT, RECEIPTS
from worker.receipts.search import ReceiptFilter

WHY = {
    CandidateVerdict.CHOSEN: "it is in the block",
    CandidateVerdict.BELOW_THRESHOLD: "it is too far from the message",
    CandidateVerdict.SUPERSEDED: "another memory has replaced it",
    CandidateVerdict.NAMESAKE: "it is about somebody else of that name",
    CandidateVerdict.OVER_POOL: "pool_limit better ones were found",
    CandidateVerdict.BELOW_CUT: "search alone was not sure of it, or others were much nearer",
    CandidateVerdict.ALREADY_SHOWN: "the session has it in its context already",
    CandidateVerdict.DUPLICATE: "another memory says the same",
    CandidateVerdict.NOT_SELECTED: "whoever chose saw it and left it out",
    CandidateVerdict.OVER_ITEMS: "max_items better ones were chosen",
    CandidateVerdict.OVER_CHARS: "the block had no room for its characters",
    CandidateVerdict.OVER_TOKENS: "the block had no room for its tokens",
}
"""Every verdict in words."""

ID_CHARS = 32
"""Characters of a receipt's id, which is there to be copied."""

Session = Annotated[str | None, typer.Option("--session", help="Only of this session.")]
OneAgent = Annotated[str | None, typer.Option("--agent", help="Only of this agent.")]
OneOutcome = Annotated[Outcome | None, typer.Option("--outcome", help="Only with this outcome.")]
OneReason = Annotated[str | None, typer.Option("--reason", help="Only with this reason.")]
OneEngine = Annotated[Engine | None, typer.Option("--engine", help="Only where this made the choice.")]
Degraded = Annotated[bool | None, typer.Option("--degraded/--sound", help="Only where something failed, or nothing.")]
Since = Annotated[datetime | None, typer.Option(help="Only requests from this time on, in UTC.")]
Until = Annotated[str | None, typer.Option(help="Only requests up to this time, in UTC; a day is meant whole.")]


def filter_of(
    session: str | None,
    agent: str | None,
    outcome: Outcome | None,
    reason: str | None,
    engine: Engine | None,
    degraded: bool | None,
    since: datetime | None,
    until: str | None = None,
) -> dict[str, Any]:
    """What is wanted, as `worker.receipts.search.ReceiptFilter` reads it. Raises `typer.BadParameter`."""
    if reason is not None and Reason(reason) is Reason.UNKNOWN:
        raise typer.BadParameter(f"{reason} is no reason; docs/hook.md names all of them", param_hint="--reason")
    return {
        "session_id": session,
        "agent_id": agent,
        "outcome": outcome,
        "reason": reason,
        "engine": engine,
        "degraded": degraded,
        "since": since.replace(tzinfo=since.tzinfo or UTC).isoformat() if since else None,
        "until": _moment(until),
    }


def _moment(until: str | None) -> str | None:
    """The time as it was said, which the service reads. Raises `typer.BadParameter` for what is none."""
    try:
        ReceiptFilter.model_validate({"until": until})
    except ValidationError as error:
        raise typer.BadParameter(f"{until} is no time such as 2026-03-05", param_hint="--until") from error
    return until


def receipt(
    context: typer.Context,
    receipt_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Which receipt; without one, the latest are listed.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to list.")] = 20,
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
    """List requests, or explain one: what was considered, chosen and dropped, why, and how long it took."""
    settings = settings_of(context, as_json=as_json)
    where = filter_of(session, agent, outcome, reason, engine, degraded, since, until)

    async def work() -> dict[str, Any]:
        async with open_client(settings) as backend:
            if receipt_id is None:
                return await backend.call(RECEIPTS, {"tenant": tenant, "limit": limit, "where": where, "brief": True})
            return await shown(backend, tenant, receipt_id)

    found = run(work(), as_json=as_json)
    if as_json:
        print_json(found)
    elif receipt_id is None:
        _list(found["receipts"])
    else:
        _explain(found)


async def shown(backend: OperationClient, tenant: str, receipt_id: str) -> dict[str, Any]:
    """One receipt, whole."""
    return await backend.call(RECEIPT, {"tenant": tenant, "id": receipt_id})


def _list(receipts: list[dict[str, Any]]) -> None:
    rows = [
        [
            entry["id"],
            entry["at"][:16].replace("T", " "),
            f"{entry['session_id']}/{entry['agent_id']}",
            entry["outcome"],
            (entry["reason"] or "") + (" (degraded)" if entry["degraded"] else ""),
            entry["engine"],
            f"{len(entry['chosen'])} of {entry['considered']}",
            f"{entry['elapsed_ms']:.0f}",
        ]
        for entry in receipts
    ]
    drawn = table(None, ["receipt", "at", "session/agent", "outcome", "reason", "engine", "chosen", "ms"], rows)
    drawn.columns[0].min_width, drawn.columns[0].no_wrap = ID_CHARS, True
    show(drawn)


def _explain(found: dict[str, Any]) -> None:
    say(summary(found["outcome"], found["reason"], found["engine"], found["elapsed_ms"], found["stages"]))
    say(f"query: {found['query']}")
    for query in found["recalls"]:
        say(f"recalled again: {query}")
    for attempt in found["attempts"]:
        say(f"asked {attempt['model']}: {attempt['reason'] or 'it chose'}{' (as before)' if attempt['cached'] else ''}")
    for note in found["notes"]:
        say(f"note: {note}")
    if found["model"]:
        say(f"model: {json.dumps(found['model'])}")
    rows = [[_why(entry), *scores(entry), entry["id"], entry["text"]] for entry in found["considered"]]
    show(table(None, ["verdict", "score", "cosine", "keyword", "id", "memory"], rows))


def _why(entry: dict[str, Any]) -> str:
    by = f" ({entry['duplicate_of']})" if entry["duplicate_of"] else ""
    return f"{entry['verdict']}: {WHY[CandidateVerdict(entry['verdict'])]}{by}"
