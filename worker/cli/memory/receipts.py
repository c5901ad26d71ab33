"""`meeseeks admin receipts`: lists past requests and explains why each memory was injected or not."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from hooks.contract import Engine, Outcome, Reason
from worker.cli.backend import open_client
from worker.cli.options import Tenant, settings_of
from worker.cli.output import printed_as_json, say, scores, show, summary, table
from worker.cli.running import run_async
from worker.domain.memory import CandidateVerdict
from worker.operations.client import OperationClient
from worker.operations.registry import RECEIPT, RECEIPTS
from worker.receipts.explaining import DELETED, WHY
from worker.receipts.search import ReceiptFilter
from worker.settings.file import near_match
from worker.text.rendering import flatten

CHOSEN, BELOW_CUT = CandidateVerdict.CHOSEN, CandidateVerdict.BELOW_CUT

SHOWN_ID = 8
"""Characters of an id in the list; the beginning of an id is enough for every command."""

MESSAGE_CHARS = 60

Session = Annotated[str | None, typer.Option("--session", help="Only this session.")]
OneAgent = Annotated[str | None, typer.Option("--agent", help="Only this agent.")]
OneOutcome = Annotated[Outcome | None, typer.Option("--outcome", help="Only with this outcome.")]
OneReason = Annotated[str | None, typer.Option("--reason", help="Only with this reason.")]
OneEngine = Annotated[Engine | None, typer.Option("--engine", help="Only selections by this engine.")]
Degraded = Annotated[bool | None, typer.Option("--degraded/--sound", help="Only with, or only without, a fallback.")]
Since = Annotated[datetime | None, typer.Option(help="Only requests since this time (UTC).")]
Until = Annotated[str | None, typer.Option(help="Only requests until this time (UTC); a date includes the whole day.")]


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
    """Return the fields of a `ReceiptFilter`. Raise `typer.BadParameter` for an unknown reason or time."""
    if reason is not None and Reason(reason) is Reason.UNKNOWN:
        known = sorted(set(Reason) - {Reason.UNKNOWN})
        what = near_match(reason, known) or f"; use one of {', '.join(known)}"
        raise typer.BadParameter(f"unknown reason {reason}{what}", param_hint="--reason")
    return {
        "session_id": session,
        "agent_id": agent,
        "outcome": outcome,
        "reason": reason,
        "engine": engine,
        "degraded": degraded,
        "since": since.replace(tzinfo=since.tzinfo or UTC).isoformat() if since else None,
        "until": _checked_time(until),
    }


def _checked_time(until: str | None) -> str | None:
    try:
        ReceiptFilter.model_validate({"until": until})
    except ValidationError as error:
        raise typer.BadParameter(
            f"invalid time {until}; use 2026-03-05 or 2026-03-05T14:00", param_hint="--until"
        ) from error
    return until


def receipt(
    context: typer.Context,
    receipt_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Receipt id (default: list the latest).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of receipts to list.")] = 20,
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
    """List past requests, or explain one: which memories were considered and injected, why, and how long it took."""
    settings = settings_of(context)
    where = filter_of(session, agent, outcome, reason, engine, degraded, since, until)

    async def work() -> dict[str, Any]:
        async with open_client(settings) as backend:
            if receipt_id is None:
                shown = {"brief": True, "messages": True}
                return await backend.call(RECEIPTS, {"tenant": tenant, "limit": limit, "where": where, **shown})
            return await fetch(backend, tenant, receipt_id)

    found = run_async(work())
    if printed_as_json(found):
        return
    if receipt_id is None:
        _list(found["receipts"])
    else:
        _explain(found)


async def fetch(backend: OperationClient, tenant: str, receipt_id: str) -> dict[str, Any]:
    return await backend.call(RECEIPT, {"tenant": tenant, "id": receipt_id})


def _list(receipts: list[dict[str, Any]]) -> None:
    rows = []
    for entry in receipts:
        at, session = entry["at"][:16].replace("T", " "), f"{entry['session_id']}/{entry['agent_id']}"
        outcome = entry["outcome"] + (f" ({entry['reason']})" if entry["reason"] else "")
        outcome += ", degraded" if entry["degraded"] else ""
        injected = f"{len(entry['chosen'])} of {entry['considered']}"
        message = flatten(entry["message"], MESSAGE_CHARS)
        rows.append([entry["id"][:SHOWN_ID], at, message, outcome, injected, f"{entry['elapsed_ms']:.0f}", session])
    columns = ["receipt", "at (UTC)", "message", "outcome", "injected", "ms", "session/agent"]
    show(table(None, columns, rows, whole=1))


def _explain(found: dict[str, Any]) -> None:
    say(summary(found["outcome"], found["reason"], found["engine"], found["elapsed_ms"], found["stages"]))
    say(f"query: {found['query']}")
    for query in found["recalls"]:
        say(f"second query: {query}")
    for attempt in found["attempts"]:
        say(f"asked {attempt['model']}: {attempt['reason'] or 'selected'}{' (cached)' if attempt['cached'] else ''}")
    for note in found["notes"]:
        say(f"note: {note}")
    if found["model"]:
        say(f"model: {json.dumps(found['model'])}")
    required = found.get("required")
    rows = [
        [explained(entry, required), *scores(entry), entry["id"], shown_text(entry)] for entry in found["considered"]
    ]
    show(table(None, ["verdict", "score", "cosine", "keyword", "id", "memory"], rows))


def shown_text(entry: dict[str, Any]) -> str:
    """Return the text of a considered memory, or say that it was deleted."""
    return DELETED if entry.get("deleted") else str(entry["text"])


def explained(entry: dict[str, Any], required: float | None) -> str:
    """Explain a verdict, by the probability that the memory has and the one that it needs if these decided."""
    verdict = CandidateVerdict(entry["verdict"])
    by = f" ({entry['duplicate_of']})" if entry["duplicate_of"] else ""
    through = f'; found through the cue "{entry["cue"]}"' if entry.get("cue") else ""
    if required is None or entry["probability"] is None or verdict not in (CHOSEN, BELOW_CUT):
        return f"{verdict}: {WHY[verdict]}{by}{through}"
    return f"{verdict}: probability {entry['probability']:.2f}, needs {required:.2f}{through}"
