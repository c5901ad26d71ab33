"""Endpoints of an agent run: injection, host hooks, session events and search."""

from fastapi import FastAPI, Request
from starlette.responses import Response

from hooks.contract import InjectionRequest, InjectionResult, Outcome, Reason
from hooks.protocol.wire import ACK_TIMEOUT
from worker.api.execution import Limit, LimitHeader, OperationExecutor, seconds_left, shortest, tenant_of
from worker.api.json_bodies import JsonAnswer
from worker.domain.errors import MeeseeksError
from worker.operations.job import reason_of
from worker.operations.registry import INJECT, RECALL
from worker.operations.requests import RecallRequest

from .sessions import add_hooks, add_sessions

LATE = frozenset({Reason.NO_WORKER, Reason.NO_ACK, Reason.BUSY, Reason.DEADLINE})
RECALL_DEADLINE_MS = 10_000


def add_injecting(app: FastAPI, executor: OperationExecutor) -> None:
    _add_inject(app, executor)
    add_hooks(app, executor)
    add_sessions(app, executor)
    _add_recall(app, executor)


def _add_inject(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/inject", tags=["run"], operation_id="inject", response_model=InjectionResult)
    async def inject(
        request: Request, body: InjectionRequest, deadline_ms: Limit = None, x_deadline_ms: LimitHeader = None
    ) -> Response:
        """Return the memory block for a run, or no block and the reason.

        Failures of the service return a result without a block; only invalid requests are errors. The block's memories
        count as shown once the response has been sent.
        """
        limit = shortest(body.deadline_ms, deadline_ms, x_deadline_ms)
        left, ends = seconds_left(request, limit)
        payload = body.model_dump(mode="json", exclude_none=True) | {"deadline_ms": limit}
        payload["scope"]["tenant"] = tenant_of(request, body.scope.tenant)
        try:
            answer = await executor.ask(request, INJECT, payload, budget=left, ack=ACK_TIMEOUT)
        except MeeseeksError as error:
            result = _without_block(error, body)
            executor.metrics.injected(result)
            return JsonAnswer(result.model_dump(mode="json"))
        if executor.counts:
            executor.metrics.injected(InjectionResult.model_validate(answer.body))
        return executor.delivery(answer, ends)


def _without_block(error: MeeseeksError, body: InjectionRequest) -> InjectionResult:
    """Return the result of a failed request. Raise it again if the request is invalid."""
    reason = reason_of(error)
    if reason is Reason.BAD_REQUEST:
        raise error
    outcome = Outcome.TIMEOUT if reason in LATE else Outcome.ERROR
    return InjectionResult.nothing(outcome, reason, turn_id=body.turn_id)


def _add_recall(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/recall", tags=["memories"], operation_id="recall", response_model=RECALL.result)
    async def recall(
        request: Request, body: RecallRequest, deadline_ms: Limit = None, x_deadline_ms: LimitHeader = None
    ) -> Response:
        """Search memories, best first. `ungated` ignores the relevance thresholds."""
        left, _ = seconds_left(request, shortest(RECALL_DEADLINE_MS, deadline_ms, x_deadline_ms))
        payload = body.model_dump(mode="json", exclude_none=True)
        payload["scope"]["tenant"] = tenant_of(request, body.scope.tenant)
        return await executor.answer(request, RECALL, payload, budget=left)
