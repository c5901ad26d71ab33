"""Endpoints of captures: send turns of a conversation, look into and undo captures, and decide on proposals."""

from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from hooks.contract import Key, Text
from hooks.contract.capture import CaptureRequest
from worker.api.execution import OperationExecutor, Tenant, tenant_of
from worker.api.schemas import AcceptBody
from worker.operations.registry import (
    CAPTURE,
    CAPTURE_SHOW,
    CAPTURE_UNDO,
    CAPTURES,
    PROPOSAL_ACCEPT,
    PROPOSAL_REJECT,
    PROPOSALS,
)
from worker.operations.requests import TenantRequest

TAGS: list[Any] = ["capture"]
CAPTURE_S = 60.0

CaptureId = Annotated[Key, Path(description="Capture id, as named in results.")]
ProposalId = Annotated[Key, Path(description="Proposal id.")]


def add_captures(app: FastAPI, executor: OperationExecutor) -> None:
    _add_capturing(app, executor)
    _add_proposals(app, executor)


def _add_capturing(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/capture", tags=TAGS, operation_id="capture", response_model=CAPTURE.result)
    async def capture(request: Request, body: CaptureRequest) -> Response:
        """Capture memories from turns of a conversation. Turns that were captured before are skipped."""
        payload = body.model_dump(mode="json", exclude_none=True) | {"tenant": tenant_of(request, body.tenant)}
        return await executor.answer(request, CAPTURE, payload, budget=CAPTURE_S)

    @app.get("/v1/captures", tags=TAGS, operation_id="list_captures", response_model=CAPTURES.result)
    async def captures(
        request: Request, tenant: Tenant = "default", limit: Annotated[int, Query(ge=1, le=200)] = 20
    ) -> Response:
        """List the latest captures of a tenant that found anything, newest first."""
        return await executor.answer(request, CAPTURES, {"tenant": tenant_of(request, tenant), "limit": limit})

    @app.get("/v1/captures/{capture_id}", tags=TAGS, operation_id="show_capture", response_model=CAPTURE_SHOW.result)
    async def show(request: Request, capture_id: CaptureId, tenant: Tenant = "default") -> Response:
        """Show what a capture found, what became of it, and what was left out and why."""
        return await executor.answer(request, CAPTURE_SHOW, {"tenant": tenant_of(request, tenant), "id": capture_id})

    @app.post(
        "/v1/captures/{capture_id}/undo", tags=TAGS, operation_id="undo_capture", response_model=CAPTURE_UNDO.result
    )
    async def undo(request: Request, capture_id: CaptureId, body: TenantRequest) -> Response:
        """Delete what a capture has stored, and reopen what it replaced. The same is not captured again."""
        payload = {"tenant": tenant_of(request, body.tenant), "id": capture_id}
        return await executor.answer(request, CAPTURE_UNDO, payload)


def _add_proposals(app: FastAPI, executor: OperationExecutor) -> None:
    @app.get("/v1/capture/proposals", tags=TAGS, operation_id="list_proposals", response_model=PROPOSALS.result)
    async def proposals(
        request: Request,
        tenant: Tenant = "default",
        user: Annotated[Text | None, Query(description="Only from conversations of this user.")] = None,
    ) -> Response:
        """List the proposals that wait for review, oldest first, each with the words that it rests on."""
        return await executor.answer(request, PROPOSALS, {"tenant": tenant_of(request, tenant), "user": user})

    @app.post(
        "/v1/capture/proposals/{proposal_id}/accept",
        tags=TAGS,
        operation_id="accept_proposal",
        response_model=PROPOSAL_ACCEPT.result,
    )
    async def accept(request: Request, proposal_id: ProposalId, body: AcceptBody) -> Response:
        """Store a proposal, as it is or with another text."""
        payload = {"tenant": tenant_of(request, body.tenant), "id": proposal_id, "text": body.text}
        return await executor.answer(request, PROPOSAL_ACCEPT, payload)

    @app.post(
        "/v1/capture/proposals/{proposal_id}/reject",
        tags=TAGS,
        operation_id="reject_proposal",
        response_model=PROPOSAL_REJECT.result,
    )
    async def reject(request: Request, proposal_id: ProposalId, body: TenantRequest) -> Response:
        """Reject a proposal for good: the same is not proposed again."""
        payload = {"tenant": tenant_of(request, body.tenant), "id": proposal_id}
        return await executor.answer(request, PROPOSAL_REJECT, payload)
