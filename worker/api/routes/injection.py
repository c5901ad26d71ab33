"""Endpoints that serve a run: memory for it, native hooks of hosts, events of its session, and search by hand."""

from fastapi import FastAPI, Request
from starlette.responses import Response

from hooks.contract import InjectionRequest, InjectionResult, Outcome, Reason
from hooks.wire import ACK_TIMEOUT, INJECT
from worker.api.execution import Limit, LimitHeader, OperationExecutor, seconds_left, shortest, tenant_of
from worker.api.json_bodies import JsonAnswer
from worker.api.problems import problem_of
from worker.api.schemas import RecallView
from worker.domain.errors import MeeseeksError
from worker.operations.job import reason_of
from worker.operations.requests import RECALL, RecallPayload

from .sessions import _add_hooks, _add_sessions

LATE = frozenset({Reason.NO_WORKER, Reason.NO_ACK, Reason.BUSY, Reason.DEADLINE})
RECALL_DEADLINE_MS = 10_000


def add_injecting(app: FastAPI, executor: OperationExecutor) -> None:
    _add_inject(app, executor)
    _add_hooks(app, executor)
    _add_sessions(app, executor)
    _add_recall(app, executor)


def _add_inject(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/inject", tags=["run"], operation_id="inject", response_model=InjectionResult)
    async def inject(
        request: Request, body: InjectionRequest, deadline_ms: Limit = None, x_deadline_ms: LimitHeader = None
    ) -> Response:
        """The memory block for a run, or nothing and the reason.

        Trouble of the service is an answer without a block, as the hook gives it, never an error: only what the caller
        has to change is one. What the block shows counts as shown once the answer has been sent to a caller who waits.
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
    """The result of a request that trouble kept from being served. Raises `Problem` where the caller is at fault."""
    reason = reason_of(error)
    if reason is Reason.BAD_REQUEST:
        raise problem_of(error) from error
    outcome = Outcome.TIMEOUT if reason in LATE else Outcome.ERROR
    return InjectionResult.nothing(outcome, reason, turn_id=body.turn_id)


def _add_recall(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/recall", tags=["memories"], operation_id="recall", response_model=RecallView)
    async def recall(
        request: Request, body: RecallPayload, deadline_ms: Limit = None, x_deadline_ms: LimitHeader = None
    ) -> Response:
        """Search memories by hand, best first. `ungated` also brings what no floor lets pass."""
        left, _ = seconds_left(request, shortest(RECALL_DEADLINE_MS, deadline_ms, x_deadline_ms))
        payload = body.model_dump(mode="json", exclude_none=True)
        payload["scope"]["tenant"] = tenant_of(request, body.scope.tenant)
        try:
            answer = await executor.ask(request, RECALL, payload, budget=left)
        except MeeseeksError as error:
            raise problem_of(error) from error
        return JsonAnswer(answer.body)
