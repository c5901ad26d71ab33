"""What conversations gave rise to, waiting for a decision: keep it, in other words if wanted, or reject it for good."""

from contextlib import suppress
from datetime import datetime

from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

from hooks.contract import Key, Name, Text
from worker.console.app import Console
from worker.console.rendering import Shown
from worker.console.visits import Visit
from worker.domain.capture import ChangeKind, Proposal
from worker.domain.errors import NotFound
from worker.domain.upkeep import RUN_UNDO_S
from worker.operations.registry import (
    PROPOSAL_ACCEPT,
    PROPOSAL_REJECT,
    PROPOSALS,
    UPKEEP,
    UPKEEP_SHOW,
    UPKEEP_UNDO,
)
from worker.operations.results import UpkeepReport


class ReviewQuery(BaseModel):
    """Whose conversations the page shows."""

    user: Name | None = None


class ProposalRow(BaseModel):
    """A proposal; `said` are the words it rests on, `target` the memory that it would change, `replaces` its text."""

    id: str
    text: str
    kind: ChangeKind
    type: str
    said: str
    said_at: datetime | None
    user: str | None
    target: str | None
    replaces: str | None = None
    conflicts: list[str]
    expires_at: datetime


class ReviewPage(BaseModel):
    """The proposals that wait, oldest first, and the latest report of upkeep."""

    rows: list[ProposalRow]
    upkeep: UpkeepReport | None = None
    query: ReviewQuery


class Decision(BaseModel):
    """A proposal, and the text with which to keep it."""

    id: Key
    text: Text | None = None


class RunId(BaseModel):
    """A run of upkeep."""

    id: Key


def routes(console: Console) -> list[Route]:
    return [
        *console.page("/review", show),
        *console.action("/review/accept", accept),
        *console.action("/review/reject", reject),
        *console.action("/review/upkeep", start_upkeep),
        *console.action("/review/upkeep/undo", undo_upkeep),
    ]


async def show(visit: Visit) -> Shown:
    query = visit.query(ReviewQuery)
    found = await visit.ask(PROPOSALS, {"user": query.user})
    upkeep = None
    with suppress(NotFound):
        upkeep = await visit.ask(UPKEEP_SHOW, {})
    page = ReviewPage(rows=list(map(_row, found.proposals)), upkeep=upkeep, query=query)
    return Shown("review.html", "Review", page)


def _row(proposal: Proposal) -> ProposalRow:
    change, evidence = proposal.change, proposal.change.memory.evidence
    return ProposalRow(
        id=proposal.id,
        text=change.memory.content,
        kind=change.kind,
        type=change.memory.type.value,
        said=evidence.text if evidence else "",
        said_at=evidence.said_at if evidence else None,
        user=proposal.source.user,
        target=change.target,
        replaces=proposal.replaces,
        conflicts=list(change.conflicts),
        expires_at=proposal.expires_at,
    )


async def accept(visit: Visit) -> Response:
    decision = visit.posted(Decision)
    await visit.ask(PROPOSAL_ACCEPT, {"id": decision.id, "text": decision.text})
    return visit.lead_on("/review")


async def reject(visit: Visit) -> Response:
    await visit.ask(PROPOSAL_REJECT, {"id": visit.posted(Decision).id})
    return visit.lead_on("/review")


async def start_upkeep(visit: Visit) -> Response:
    await visit.ask(UPKEEP, {"apply": visit.text("apply") == "true"})
    return visit.lead_on("/review#upkeep")


async def undo_upkeep(visit: Visit) -> Response:
    await visit.ask(UPKEEP_UNDO, {"id": visit.posted(RunId).id}, budget=RUN_UNDO_S)
    return visit.lead_on("/review#upkeep")
