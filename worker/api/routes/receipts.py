"""Endpoints of receipts: list, show, replay and label them."""

import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from hooks.contract import Key, Reason
from worker.api.execution import OperationExecutor, Tenant, only_for_all, tenant_of
from worker.api.json_bodies import JsonAnswer
from worker.api.problems import Problem
from worker.api.schemas import LabelBody, ReceiptsQuery, ReplayBody, ReplaysBody
from worker.domain.errors import MeeseeksError
from worker.operations.registry import LABEL, RECEIPT, RECEIPTS, REPLAY
from worker.receipts.replay import summed_up
from worker.receipts.replay_models import REPLAY_S, ReplayRequest, ReplaySummary, concerns_all_tenants
from worker.receipts.search import ReceiptFilter

TAGS: list[Any] = ["receipts"]

LEAST_S = 0.05
"""Least remaining seconds to start another replay."""

ReceiptId = Annotated[Key, Path(description="Receipt id, as named in results.")]


def add_receipts(app: FastAPI, executor: OperationExecutor) -> None:
    _add_looking(app, executor)
    _add_replay(app, executor)
    _add_replays(app, executor)
    _add_label(app, executor)


def _add_looking(app: FastAPI, executor: OperationExecutor) -> None:
    @app.get("/v1/receipts", tags=TAGS, operation_id="list_receipts", response_model=RECEIPTS.result)
    async def receipts(request: Request, query: Annotated[ReceiptsQuery, Query()]) -> Response:
        """List the latest requests of a tenant with their candidates, or in `brief` without."""
        where = _known(query).model_dump(mode="json", exclude_none=True)
        payload = {"tenant": tenant_of(request, query.tenant), "limit": query.limit, "brief": query.brief}
        return await executor.answer(request, RECEIPTS, {**payload, "where": where})

    @app.get("/v1/receipts/{receipt_id}", tags=TAGS, operation_id="show_receipt", response_model=RECEIPT.result)
    async def receipt(request: Request, receipt_id: ReceiptId, tenant: Tenant = "default") -> Response:
        """Explain one request: its candidates, what was chosen or dropped and why, and how long it took."""
        return await executor.answer(request, RECEIPT, {"tenant": tenant_of(request, tenant), "id": receipt_id})


def _known(where: ReceiptFilter) -> ReceiptFilter:
    """Return only the filter. Raise `Problem` for an unknown reason."""
    if where.reason is Reason.UNKNOWN:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "reason: unknown reason", reason=Reason.BAD_REQUEST)
    return ReceiptFilter.model_validate(where.model_dump(include=set(ReceiptFilter.model_fields)))


def _add_replay(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post(
        "/v1/receipts/{receipt_id}/replay", tags=TAGS, operation_id="replay_receipt", response_model=REPLAY.result
    )
    async def replay(request: Request, receipt_id: ReceiptId, body: ReplayBody) -> Response:
        """Re-run a past request without side effects and show what changes."""
        payload: dict[str, Any] = {"tenant": tenant_of(request, body.tenant), "id": receipt_id}
        requested = ReplayRequest.model_validate(body.model_dump(include=set(ReplayRequest.model_fields)))
        payload["changes"] = _allowed(request, requested)
        return await executor.answer(request, REPLAY, payload, budget=REPLAY_S)


def _add_replays(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/replays", tags=TAGS, operation_id="replay_receipts", response_model=ReplaySummary)
    async def replays(request: Request, body: ReplaysBody) -> Response:
        """Re-run the newest matching requests one after the other, and summarize what changes.

        A failed replay has an `error`; `not_run` lists those that had no time left.
        """
        ends = time.monotonic() + body.within_ms / 1000
        tenant, where = tenant_of(request, body.tenant), _known(body.where).model_dump(mode="json", exclude_none=True)
        requested = _allowed(request, body.changes)
        listed = {"tenant": tenant, "limit": body.limit, "where": where, "brief": True}
        found = await executor.ask(request, RECEIPTS, listed)
        ids = [entry["id"] for entry in found.body["receipts"]]
        done = await _replayed(executor, request, {"tenant": tenant, "changes": requested}, ids, ends)
        return JsonAnswer(summed_up(done, ids[len(done) :]).model_dump(mode="json"))


async def _replayed(
    executor: OperationExecutor, request: Request, payload: dict[str, Any], ids: Sequence[str], ends: float
) -> list[dict[str, Any]]:
    """Replay these receipts in order until the time `ends`, and return the results."""
    done: list[dict[str, Any]] = []
    for receipt_id in ids:
        left = ends - time.monotonic()
        if left < LEAST_S:
            break
        try:
            asked = executor.ask(request, REPLAY, {**payload, "id": receipt_id}, budget=min(REPLAY_S, left))
            done.append((await asked).body)
        except MeeseeksError as error:
            done.append({"receipt_id": receipt_id, "error": str(error)})
    return done


def _allowed(request: Request, requested: ReplayRequest) -> dict[str, Any]:
    """Return the changes as JSON. Raise `Problem` if a token of one tenant changes what concerns all tenants."""
    if concerns_all_tenants(requested):
        only_for_all(request)
    return requested.model_dump(mode="json")


def _add_label(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/receipts/{receipt_id}/label", tags=TAGS, operation_id="label_receipt", response_model=LABEL.result)
    async def label(request: Request, receipt_id: ReceiptId, body: LabelBody) -> Response:
        """Return a receipt as a labelled case: a task and its memories, each a line of a case file. Store nothing."""
        unsaid = set() if body.missing else {"missing"}  # which workers of earlier versions do not know
        labels = body.model_dump(mode="json", exclude={"tenant", "nothing", *unsaid})
        payload = {"tenant": tenant_of(request, body.tenant), "id": receipt_id}
        return await executor.answer(request, LABEL, {**payload, "labels": labels})
