"""Endpoints of requests that were: list and explain them, run them again, make labelled cases of them."""

import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from hooks.contract import Key, Reason
from worker.api.execution import OperationExecutor, Tenant, only_for_all, tenant_of
from worker.api.json_bodies import JsonAnswer
from worker.api.problems import Problem, problem_of
from worker.api.schemas import LabelBody, ReceiptList, ReceiptsQuery, ReplayBody, ReplaysBody
from worker.domain.errors import MeeseeksError
from worker.domain.receipt import Receipt
from worker.operations.receipts import LABEL, REPLAY
from worker.operations.requests import RECEIPT, RECEIPTS
from worker.receipts.cases import LabelledCase
from worker.receipts.replay import NO_MODEL, REPLAY_S, Replay, ReplayRequest, ReplaySummary, summed_up
from worker.receipts.search import ReceiptFilter

TAGS: list[Any] = ["receipts"]

LEAST_S = 0.05
"""Seconds that must be left for one more of several replays to be begun."""

ReceiptId = Annotated[Key, Path(description="Which; results name theirs.")]


def add_receipts(app: FastAPI, executor: OperationExecutor) -> None:
    _add_looking(app, executor)
    _add_replay(app, executor)
    _add_replays(app, executor)
    _add_label(app, executor)


def _add_looking(app: FastAPI, executor: OperationExecutor) -> None:
    @app.get("/v1/receipts", tags=TAGS, operation_id="list_receipts", response_model=ReceiptList)
    async def receipts(request: Request, wanted: Annotated[ReceiptsQuery, Query()]) -> Response:
        """The latest requests of a tenant, each with all that was considered, or in `brief`."""
        where = _known(wanted).model_dump(mode="json", exclude_none=True)
        payload = {"tenant": tenant_of(request, wanted.tenant), "limit": wanted.limit, "brief": wanted.brief}
        return await executor.answer(request, RECEIPTS, {**payload, "where": where})

    @app.get("/v1/receipts/{receipt_id}", tags=TAGS, operation_id="show_receipt", response_model=Receipt)
    async def receipt(request: Request, receipt_id: ReceiptId, tenant: Tenant = "default") -> Response:
        """One request explained: what was considered, chosen and dropped, why, and how long it took."""
        return await executor.answer(request, RECEIPT, {"tenant": tenant_of(request, tenant), "id": receipt_id})


def _known(where: ReceiptFilter) -> ReceiptFilter:
    """The filter alone. Raises `Problem` for a reason that there is not."""
    if where.reason is Reason.UNKNOWN:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "reason: there is none by that name", reason=Reason.BAD_REQUEST)
    return ReceiptFilter.model_validate(where.model_dump(include=set(ReceiptFilter.model_fields)))


def _add_replay(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/receipts/{receipt_id}/replay", tags=TAGS, operation_id="replay_receipt", response_model=Replay)
    async def replay(request: Request, receipt_id: ReceiptId, body: ReplayBody) -> Response:
        """Run a receipt's request again, at its time and without a trace, and say what comes out otherwise."""
        payload = {"tenant": tenant_of(request, body.tenant), "id": receipt_id}
        requested = ReplayRequest.model_validate(body.model_dump(include=set(ReplayRequest.model_fields)))
        try:
            done = await executor.ask(
                request, REPLAY, {**payload, "changes": _allowed(request, requested)}, budget=REPLAY_S
            )
        except MeeseeksError as error:
            raise problem_of(error) from error
        return JsonAnswer(done.body)


def _add_replays(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/replays", tags=TAGS, operation_id="replay_receipts", response_model=ReplaySummary)
    async def replays(request: Request, body: ReplaysBody) -> Response:
        """Run the newest receipts that are wanted again, one after the other, within a time, and sum up what changes.

        One that fails says so in its place; those for which no time was left are named in `not_run`.
        """
        ends = time.monotonic() + body.within_ms / 1000
        tenant, where = tenant_of(request, body.tenant), _known(body.where).model_dump(mode="json", exclude_none=True)
        requested = _allowed(request, body.changes)
        listed = {"tenant": tenant, "limit": body.limit, "where": where, "brief": True}
        try:
            found = (await executor.ask(request, RECEIPTS, listed)).body["receipts"]
        except MeeseeksError as error:
            raise problem_of(error) from error
        ids = [entry["id"] for entry in found]
        done = await _replayed(executor, request, {"tenant": tenant, "changes": requested}, ids, ends)
        return JsonAnswer(summed_up(done, ids[len(done) :]).model_dump(mode="json"))


async def _replayed(
    executor: OperationExecutor, request: Request, payload: dict[str, Any], ids: Sequence[str], ends: float
) -> list[dict[str, Any]]:
    """What came of the first of these receipts, as far as the time until `ends` goes."""
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
    """Return the changes as JSON. Raise `Problem` if a token of one tenant names models, which all tenants pay for."""
    if requested.model not in (None, NO_MODEL) or "models" in requested.settings:
        only_for_all(request)
    return requested.model_dump(mode="json")


def _add_label(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/receipts/{receipt_id}/label", tags=TAGS, operation_id="label_receipt", response_model=LabelledCase)
    async def label(request: Request, receipt_id: ReceiptId, body: LabelBody) -> Response:
        """The labelled case that a receipt makes: a task and its memories, each a line of a case file.

        Nothing is stored: the caller keeps the file.
        """
        labels = body.model_dump(mode="json", exclude={"tenant", "nothing"})
        payload = {"tenant": tenant_of(request, body.tenant), "id": receipt_id}
        return await executor.answer(request, LABEL, {**payload, "labels": labels})
