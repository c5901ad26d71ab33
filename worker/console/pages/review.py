"""What conversations gave rise to, waiting for a decision: keep it, in other words if wanted, or reject it for good."""

from datetime import datetime

from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

from hooks.contract import Key, Name, Text
from worker.console.app import Console
from worker.console.rendering import Shown, redirect
from worker.console.visits import Visit
from worker.domain.capture import ChangeKind, Proposal
from worker.operations.registry import PROPOSAL_ACCEPT, PROPOSAL_REJECT, PROPOSALS


class ReviewQuery(BaseModel):
    """Whose conversations the page shows."""

    user: Name | None = None


class ProposalRow(BaseModel):
    """A proposal; `said` are the words it rests on, `target` the memory that it would change."""

    id: str
    text: str
    kind: ChangeKind
    type: str
    said: str
    said_at: datetime | None
    user: str | None
    target: str | None
    conflicts: list[str]
    expires_at: datetime


class ReviewPage(BaseModel):
    """The proposals that wait, oldest first."""

    rows: list[ProposalRow]
    query: ReviewQuery


class Decision(BaseModel):
    """A proposal, and the text with which to keep it."""

    id: Key
    text: Text | None = None


def routes(console: Console) -> list[Route]:
    return [
        *console.page("/review", show),
        *console.action("/review/accept", accept),
        *console.action("/review/reject", reject),
    ]


async def show(visit: Visit) -> Shown:
    query = visit.query(ReviewQuery)
    found = await visit.ask(PROPOSALS, {"user": query.user})
    return Shown("review.html", "Review", ReviewPage(rows=list(map(_row, found.proposals)), query=query))


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
        conflicts=list(change.conflicts),
        expires_at=proposal.expires_at,
    )


async def accept(visit: Visit) -> Response:
    decision = visit.posted(Decision)
    await visit.ask(PROPOSAL_ACCEPT, {"id": decision.id, "text": decision.text})
    return redirect("/review")


async def reject(visit: Visit) -> Response:
    await visit.ask(PROPOSAL_REJECT, {"id": visit.posted(Decision).id})
    return redirect("/review")
