"""Endpoints for reported answers and the usage of memories."""

from typing import Annotated

from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from hooks.contract import Reason
from hooks.contract.usage import AnswerReport, AnswerReportResult
from hooks.protocol.wire import ACK_TIMEOUT
from worker.api.execution import Limit, LimitHeader, OperationExecutor, Tenant, seconds_left, shortest, tenant_of
from worker.api.json_bodies import JsonAnswer
from worker.domain.errors import MeeseeksError
from worker.operations.job import reason_of
from worker.operations.registry import POST_EXECUTION, USAGE
from worker.operations.requests import MOST_LISTED


def add_answering(app: FastAPI, executor: OperationExecutor) -> None:
    _add_report(app, executor)
    _add_usage(app, executor)


def _add_report(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/answers", tags=["run"], operation_id="report_answer", response_model=AnswerReportResult)
    async def report(
        request: Request, body: AnswerReport, deadline_ms: Limit = None, x_deadline_ms: LimitHeader = None
    ) -> Response:
        """Report an agent's answer, so that the memories it used are counted.

        The answer is not stored. Failures of the service return `done: false` with the reason; only invalid requests
        are errors.
        """
        limit = shortest(body.deadline_ms, deadline_ms, x_deadline_ms)
        left, _ = seconds_left(request, limit)
        payload = body.model_dump(mode="json", exclude_none=True) | {"deadline_ms": limit}
        payload["tenant"] = tenant_of(request, body.tenant)
        try:
            answer = await executor.ask(request, POST_EXECUTION, payload, budget=left, ack=ACK_TIMEOUT)
        except MeeseeksError as error:
            if reason_of(error) is Reason.BAD_REQUEST:
                raise
            return JsonAnswer(AnswerReportResult.failed(reason_of(error)).model_dump(mode="json"))
        return JsonAnswer(answer.body)


def _add_usage(app: FastAPI, executor: OperationExecutor) -> None:
    @app.get("/v1/usage", tags=["memories"], operation_id="list_usage", response_model=USAGE.result)
    async def usage(
        request: Request,
        tenant: Tenant = "default",
        never_used: Annotated[bool, Query(description="Only memories that no answer used.")] = False,
        min_injected: Annotated[
            int, Query(ge=1, le=1 << 31, description="Only memories injected at least this often.")
        ] = 1,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
    ) -> Response:
        """List how often memories were injected and used by reported answers, the least useful first."""
        payload = {"tenant": tenant_of(request, tenant), "never_used": never_used, "min_injected": min_injected}
        return await executor.answer(request, USAGE, {**payload, "limit": limit})
