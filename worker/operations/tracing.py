"""Spans of operations: which one ran, how it ended, and for an injection what came of it."""

from dataclasses import replace

from pydantic import BaseModel

from hooks.contract import InjectionResult, Outcome
from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError
from worker.domain.operation import AnyHandler, HandlerResult, split_commit
from worker.ports.tracing import NO_TRACER, Attribute, Span, Tracer

from .job import reason_of
from .registry import HEALTH

FAILED = frozenset({Outcome.TIMEOUT, Outcome.ERROR})


def traced(handlers: dict[str, AnyHandler], tracer: Tracer) -> dict[str, AnyHandler]:
    """Return the handlers, each of which runs in a span, except that of the health check, which monitors repeat."""
    if tracer is NO_TRACER:
        return handlers
    return {
        name: handler if handler.operation is HEALTH else _traced(handler, tracer) for name, handler in handlers.items()
    }


def _traced(handler: AnyHandler, tracer: Tracer) -> AnyHandler:
    name = handler.operation.name

    async def run(request: BaseModel, deadline: Deadline) -> HandlerResult[BaseModel]:
        with tracer.span(name, attributes={"meeseeks.operation": name}) as span:
            try:
                found = await handler.run(request, deadline)
            except MeeseeksError as error:
                span.fail(reason_of(error).value)
                raise
            result, _ = split_commit(found)
            if isinstance(result, InjectionResult):
                _describe(span, result)
            return found

    return replace(handler, run=run)


def _describe(span: Span, result: InjectionResult) -> None:
    """Note what came of an injection; the id of its receipt leads to everything else."""
    facts: dict[str, Attribute] = {
        "meeseeks.outcome": result.outcome.value,
        "meeseeks.engine": result.engine.value,
        "meeseeks.degraded": result.degraded,
        "meeseeks.memories": len(result.items),
    }
    if result.reason is not None:
        facts["meeseeks.reason"] = result.reason.value
    if result.receipt_id is not None:
        facts["meeseeks.receipt_id"] = result.receipt_id
    span.note(facts)
    if result.outcome in FAILED:
        span.fail((result.reason or result.outcome).value)
