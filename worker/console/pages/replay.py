"""Run a request again with other settings, side by side with what it got."""

import json
from typing import Any

from pydantic import BaseModel
from starlette.routing import Route

from hooks.contract import Outcome
from worker.console.app import Console
from worker.console.errors import PageError
from worker.console.rendering import Shown
from worker.console.request_words import DECIDERS, Mark, mark_of
from worker.console.visits import Visit, checked
from worker.domain.memory import CandidateVerdict
from worker.operations.registry import RECEIPT, REPLAY
from worker.receipts.explaining import WHY
from worker.receipts.replay_models import REPLAY_S, Replay, ReplayRequest, ReplayRun, concerns_all_tenants

from .request import id_of

QUICK = ("strategy", "relevance_profile", "search_limit", "max_items")
"""Settings that have fields of their own on the page."""


class Side(BaseModel):
    """What the request got, then or now."""

    mark: Mark
    decided_by: str
    model: str | None
    elapsed_ms: float


class ReplayedMemory(BaseModel):
    """A memory then and now: `where` is both, before, after or neither."""

    id: str
    text: str
    where: str
    before: str
    after: str


class ReplayPage(BaseModel):
    """The form, and the result once it was sent."""

    id: str
    message: str | None
    fields: dict[str, str]
    same: bool | None = None
    before: Side | None = None
    after: Side | None = None
    memories: list[ReplayedMemory] = []
    changed: list[str] = []
    ignored: list[str] = []
    error: str | None = None


def routes(console: Console) -> list[Route]:
    return [*console.page("/requests/{id}/replay", show), *console.action("/requests/replay", run)]


async def show(visit: Visit) -> Shown:
    return await _form(visit, id_of(visit))


async def _form(visit: Visit, receipt_id: str, **values: Any) -> Shown:
    receipt = await visit.ask(RECEIPT, {"id": receipt_id})
    fields = {name: visit.text(name) for name in (*QUICK, "model", "settings", "prompt", "current")}
    page = ReplayPage(id=receipt.id, message=receipt.request.message or None, fields=fields, **values)
    return Shown("replay.html", f"Run again: {page.message or page.id[:8]}", page, 422 if page.error else 200)


async def run(visit: Visit) -> Shown:
    receipt_id = visit.text("id")
    try:
        requested = checked(ReplayRequest, _requested(visit))
    except PageError as error:
        return await _form(visit, receipt_id, error=error.detail)
    if concerns_all_tenants(requested):
        visit.only_for_all()
    payload = {"id": receipt_id, "changes": requested.model_dump(mode="json")}
    replay = await visit.ask(REPLAY, payload, budget=REPLAY_S)
    return await _form(
        visit,
        receipt_id,
        same=replay.same,
        before=_side(replay.before),
        after=_side(replay.after),
        memories=memories_of(replay),
        changed=[one.id for one in replay.changed_memories],
        ignored=list(replay.ignored),
    )


def _requested(visit: Visit) -> dict[str, Any]:
    """Return what the form changes. Raise `PageError` for a line that is no setting."""
    settings = {name: _value(visit.text(name)) for name in QUICK if visit.text(name)}
    for line in visit.text("settings").splitlines():
        name, sign, value = line.partition("=")
        if not line.strip():
            continue
        if not sign:
            raise PageError(422, f"settings: write each as name = value, not {line.strip()!r}")
        settings[name.strip()] = _value(value.strip())
    return {
        "settings": settings,
        "model": visit.text("model") or None,
        "prompt": visit.text("prompt") or None,
        "current": visit.text("current") == "yes",
    }


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _side(run: ReplayRun) -> Side:
    mark = mark_of(Outcome(run.outcome), run.reason, len(run.chosen), degraded=run.degraded)
    return Side(mark=mark, decided_by=DECIDERS[run.engine], model=run.model, elapsed_ms=run.elapsed_ms)


def memories_of(replay: Replay) -> list[ReplayedMemory]:
    """Return the memories, those first that are given now and were not, or the other way round."""
    order = {"after": 0, "before": 1, "both": 2, "neither": 3}
    rows = []
    for one in replay.outcomes:
        was, now = one.before is CandidateVerdict.CHOSEN, one.after is CandidateVerdict.CHOSEN
        where = "both" if was and now else "after" if now else "before" if was else "neither"
        before, after = (_words(verdict) for verdict in (one.before, one.after))
        rows.append(ReplayedMemory(id=one.id, text=one.text, where=where, before=before, after=after))
    return sorted(rows, key=lambda row: order[row.where])


def _words(verdict: CandidateVerdict | None) -> str:
    return "not found" if verdict is None else "given" if verdict is CandidateVerdict.CHOSEN else WHY[verdict]
