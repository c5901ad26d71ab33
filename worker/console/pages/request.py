"""One request: what happened and why, the block, the candidates, and where the time went."""

from datetime import datetime

from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

from hooks.contract import Key
from worker.console.app import Console
from worker.console.errors import PageError
from worker.console.rendering import Shown
from worker.console.request_words import (
    DECIDERS,
    CandidateRow,
    Mark,
    Waterfall,
    candidates_of,
    mark_of,
    tokens_of,
    waterfall_of,
)
from worker.console.visits import JSON, Visit
from worker.console.words import in_address
from worker.domain.kinds import ReceiptKeep
from worker.domain.model_calls import ModelExchange
from worker.domain.receipt import Receipt
from worker.operations.registry import EXPLAIN_MEMORY, KEEP_CASE, RECEIPT, RECEIPT_PAGE
from worker.operations.results import KeptCase
from worker.receipts.absence import Absence, MemoryExplanation
from worker.receipts.explaining import explain

LABELS = ("essential", "useful", "forbidden")
NEIGHBOURS = 200
"""Requests among which the next and the previous one are looked for."""


MISSED = frozenset(
    {
        Absence.NOT_SEARCHED,
        Absence.TOO_UNIMPORTANT,
        Absence.OUTSIDE_SEARCHES,
        Absence.TOO_FAR,
        Absence.TOO_MANY_PINNED,
    }
)
"""Why a memory did not come that a label may name as missing: one that the request considered is in its table."""


class Attempt(BaseModel):
    """A model that was asked, and how that went."""

    model: str
    result: str
    elapsed_ms: float


class RequestPage(BaseModel):
    """Everything about one request; `newer` and `older` are its neighbours in the list.

    `was_missed` says that the memory that was asked about can be labelled as missing.
    """

    id: str
    at: datetime
    message: str | None
    mark: Mark
    result: str
    decided: str
    decided_by: str
    remedies: list[str]
    agent: str
    user: str | None
    session: str
    project: str | None
    source: str
    query: str
    more_queries: list[str]
    block: str | None
    block_missing: str | None
    candidates: list[CandidateRow]
    waterfall: Waterfall
    elapsed_ms: float
    model: str | None
    tokens: str | None
    cost: float | None
    attempts: list[Attempt]
    notes: list[str]
    exchanges: list[ModelExchange]
    settings: dict[str, str]
    kept: str
    newer: str | None = None
    older: str | None = None
    question: MemoryExplanation | None = None
    asked_about: str = ""
    was_missed: bool = False
    case: KeptCase | None = None


class AskQuery(BaseModel):
    """A memory to ask about."""

    memory: Key | None = None


def routes(console: Console) -> list[Route]:
    return [
        *console.page("/requests/{id}", show),
        *console.action("/requests/label", label),
    ]


def id_of(visit: Visit) -> str:
    """Return the id in the path, which a page and its JSON share."""
    return str(visit.request.path_params["id"]).removesuffix(JSON)


async def show(visit: Visit) -> Shown:
    receipt = await visit.ask(RECEIPT, {"id": id_of(visit)})
    page = (await page_of(visit, receipt)).model_copy(update={"asked_about": visit.query(AskQuery).memory or ""})
    if page.asked_about:
        question = {"id": receipt.id, "memory_id": page.asked_about}
        found = await visit.ask(EXPLAIN_MEMORY, question)
        page = page.model_copy(update={"question": found, "was_missed": found.reason in MISSED})
    return _shown(page)


def _shown(page: RequestPage) -> Shown:
    return Shown("request.html", page.message or f"Request {page.id[:8]}", page)


async def page_of(visit: Visit, receipt: Receipt) -> RequestPage:
    newer, older = await _neighbours(visit, receipt.id)
    explanation, request, model = explain(receipt), receipt.request, receipt.model
    return RequestPage(
        id=receipt.id,
        at=receipt.at,
        message=request.message or None,
        mark=mark_of(receipt.outcome, receipt.reason, len(receipt.chosen), degraded=receipt.degraded),
        result=explanation.result,
        decided=explanation.decided,
        decided_by=DECIDERS[receipt.engine],
        remedies=list(explanation.change),
        agent=request.agent_id,
        user=request.scope.user,
        session=request.session_id,
        project=request.scope.project,
        source=request.source,
        query=receipt.query,
        more_queries=list(receipt.recalls),
        block=receipt.block,
        block_missing=_block_missing(receipt),
        candidates=candidates_of(receipt),
        waterfall=waterfall_of(receipt),
        elapsed_ms=receipt.elapsed_ms,
        model=model.name if model else None,
        tokens=tokens_of(receipt),
        cost=model.cost if model else None,
        attempts=[_attempt(one.model, one.reason, one.elapsed_ms, cached=one.cached) for one in receipt.attempts],
        notes=list(receipt.notes),
        exchanges=list(receipt.exchanges),
        settings={name: str(value) for name, value in receipt.config.items()},
        kept=receipt.kept.value,
        newer=newer,
        older=older,
    )


def _attempt(model: str, reason: str | None, elapsed_ms: float, *, cached: bool) -> Attempt:
    result = f"failed: {reason}" if reason else "selected, as for the same question before" if cached else "selected"
    return Attempt(model=model, result=result, elapsed_ms=elapsed_ms)


def _block_missing(receipt: Receipt) -> str | None:
    """Return why there is no block to show although one was sent."""
    if receipt.block is not None or not receipt.chosen:
        return None
    if receipt.kept is not ReceiptKeep.EVERYTHING:
        return f"Receipts keep no texts (receipt_keep = {receipt.kept})."
    known = {one.id for one in receipt.considered if not one.deleted}
    if not known.issuperset(receipt.chosen):
        return "A memory of it was deleted since."
    return "This receipt is of an earlier version, or the block was too long to be kept."


async def _neighbours(visit: Visit, receipt_id: str) -> tuple[str | None, str | None]:
    """Return the ids of the next newer and the next older request, if it is among the latest."""
    found = await visit.ask(RECEIPT_PAGE, {"limit": NEIGHBOURS})
    ids = [one.id for one in found.summaries]
    if receipt_id not in ids:
        return None, None
    at = ids.index(receipt_id)
    return (ids[at - 1] if at else None), (ids[at + 1] if at + 1 < len(ids) else None)


async def label(visit: Visit) -> Shown | Response:
    """Keep a labelled case: all that was given is right, or what each memory should have been."""
    receipt_id = visit.text("id")
    labels: dict[str, list[str]] = {name: [] for name in LABELS}
    for name, value in visit.form.multi_items():
        if name.startswith("label:") and isinstance(value, str) and value in labels:
            labels[value].append(name.removeprefix("label:"))
    if missing := visit.text("missing"):
        labels["missing"] = [missing]
    accept, nothing = visit.text("accept") == "yes", visit.text("nothing") == "yes"
    if nothing:
        labels |= {"essential": [], "useful": []}
    if not (any(labels.values()) or accept or nothing):
        raise PageError(422, "Say of at least one memory what it should have been, or that nothing was to be given.")
    case = await visit.ask(KEEP_CASE, {"id": receipt_id, "labels": {**labels, "accept": accept}})
    if visit.wants_json:
        return visit.lead_on(f"/requests/{in_address(receipt_id)}.json")
    receipt = await visit.ask(RECEIPT, {"id": receipt_id})
    return _shown((await page_of(visit, receipt)).model_copy(update={"case": case}))
