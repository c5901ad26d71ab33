"""The client of the HTTP service: what an orchestrator awaits where it does not reach Redis."""

import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from .breaker import CircuitBreaker
from .contract import InjectionRequest, InjectionResult, Reason, SessionEvent, SessionEventResult, WireModel
from .failing import elapsed_ms, event_not_done, no_memory, report_not_done, safely, skipped
from .faults import BadReply, BadRequest
from .memory_contract import ForgetResult, RecallRequest, RecallResult, RememberResult, cleaned
from .service import DEFAULT_URL, HttpService
from .usage_contract import AnswerReport, AnswerReportResult

DEFAULT_TIMEOUT = 2.8
"""Seconds that a call may take: a little less than what hosts give a hook of three seconds."""

FAILURES = 3
"""Calls in a row that must have brought no answer at all before the service is left alone."""

PAUSE = 5.0
"""Seconds for which it then is, or half a second where it failed at once; after that one call tries again."""

NO_PATH = frozenset({"export", "import", ".", ".."})
"""Ids of memories that no path can hold: what stands there is another endpoint, or is taken out by HTTP clients."""

_log = logging.getLogger(__name__)

T = TypeVar("T")
Model = TypeVar("Model", bound=WireModel)
MemoryResult = TypeVar("MemoryResult", RecallResult, RememberResult, ForgetResult)


class MeeseeksClient:
    """Talks to the HTTP service; needs httpx (`meeseeks-hooks[http]`).

    Calls never raise and never take longer than `timeout` seconds, nor longer than the request's own `deadline_ms`;
    what fails gives a result that says why. With `strict`, what fails raises a `faults.ClientError` instead, still in
    time. Without `url` or `token`, MEESEEKS_URL and MEESEEKS_TOKEN say them. Keep one client for the life of the
    process: it keeps connections. It serves any number of calls at a time, on any event loop.

        async with MeeseeksClient() as client:
            message = await client.prefix(message, session_id="s1")

    The service counts what a block shows as shown once it has sent the answer to a caller who still waits for it.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        strict: bool = False,
        breaker: CircuitBreaker | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if timeout <= 0:
            raise ValueError("timeout must be more than 0 seconds")
        self._service = HttpService(
            url or os.environ.get("MEESEEKS_URL") or DEFAULT_URL,
            token or os.environ.get("MEESEEKS_TOKEN") or None,
            breaker=breaker or CircuitBreaker(FAILURES, PAUSE),
            clock=clock,
        )
        self._timeout = timeout
        self._strict = strict

    @property
    def timeout(self) -> float:
        """Most seconds that a call takes."""
        return self._timeout

    async def inject(
        self, request: InjectionRequest | Mapping[str, Any] | None = None, **fields: Any
    ) -> InjectionResult:
        """The block for a request, given as a model, a mapping or its fields, or an outcome and a reason."""
        started = time.monotonic()
        given = fields if request is None else request
        return await self._answered(self._inject(given, started), lambda reason: no_memory(given, reason, started))

    async def prefix(self, message: str, *, session_id: str, **fields: Any) -> str:
        """`message` with the block in front of it, or as it is. `fields` are further fields of the request."""
        result = await self.inject({**fields, "message": message, "session_id": session_id})
        return result.prefix(message)

    async def event(self, event: SessionEvent | Mapping[str, Any] | None = None, **fields: Any) -> SessionEventResult:
        """Tell what happened to a session, so that the ledger follows: `event(type="session.cleared", ...)`."""
        started = time.monotonic()
        given = fields if event is None else event
        result = await self._answered(self._event(given), event_not_done)
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def report(self, report: AnswerReport | Mapping[str, Any] | None = None, **fields: Any) -> AnswerReportResult:
        """Tell what a worker answered, so that it is counted which memories it used: `report(answer=..., ...)`."""
        started = time.monotonic()
        given = fields if report is None else report
        result = await self._answered(self._report(given), report_not_done)
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def recall(self, query: str, **fields: Any) -> RecallResult:
        """Search by hand; `fields` are further ones of `memory_contract.RecallRequest`, such as `limit` and `types`."""
        return await self._answered(self._recall(query, fields), _nothing(RecallResult))

    async def remember(self, content: str, *, tenant: str = "default", **fields: Any) -> RememberResult:
        """Store a memory; saying the same twice stores it once. `fields` are further fields of a memory."""
        return await self._answered(self._remember(content, tenant, fields), _nothing(RememberResult))

    async def forget(self, memory_id: str, *, tenant: str = "default") -> ForgetResult:
        """Delete a memory for good."""
        return await self._answered(self._forget(memory_id, tenant), _nothing(ForgetResult))

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._service.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _answered(self, work: Awaitable[T], failed: Callable[[Reason], T]) -> T:
        if not self._strict:
            return await safely(work, failed)
        try:
            return await work
        except ValidationError as error:
            raise BadRequest(Reason.BAD_REQUEST, _faults(error)) from None

    async def _inject(self, given: InjectionRequest | Mapping[str, Any], started: float) -> InjectionResult:
        request = given if isinstance(given, InjectionRequest) else InjectionRequest.model_validate(given)
        if (known := skipped(request, started)) is not None:
            return known
        budget = min(self._timeout, request.deadline_ms / 1000) - (time.monotonic() - started)
        request = request.model_copy(update={"deadline_ms": max(1, int(budget * 1000))})
        body = request.model_dump(mode="json", exclude_none=True)
        result = _checked(InjectionResult, await self._service.ask("POST", "/v1/inject", body, budget=budget))
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def _event(self, given: SessionEvent | Mapping[str, Any]) -> SessionEventResult:
        event = given if isinstance(given, SessionEvent) else SessionEvent.model_validate(given)
        budget = min(self._timeout, event.deadline_ms / 1000)
        body = event.model_dump(mode="json", exclude_none=True)
        path = f"/v1/sessions/{quote(event.session_id, safe='')}/events"
        return _checked(SessionEventResult, await self._service.ask("POST", path, body, budget=budget))

    async def _report(self, given: AnswerReport | Mapping[str, Any]) -> AnswerReportResult:
        report = given if isinstance(given, AnswerReport) else AnswerReport.model_validate(given)
        budget = min(self._timeout, report.deadline_ms / 1000)
        body = report.model_dump(mode="json", exclude_none=True)
        return _checked(AnswerReportResult, await self._service.ask("POST", "/v1/answers", body, budget=budget))

    async def _recall(self, query: str, fields: Mapping[str, Any]) -> RecallResult:
        request = RecallRequest.model_validate({**fields, "query": query})
        body = request.model_dump(mode="json", exclude_defaults=True)
        return _checked(RecallResult, await self._service.ask("POST", "/v1/recall", body, budget=self._timeout))

    async def _remember(self, content: str, tenant: str, fields: Mapping[str, Any]) -> RememberResult:
        body = {"tenant": tenant, "memory": cleaned({**fields, "content": content})}
        return _checked(RememberResult, await self._service.ask("POST", "/v1/memories", body, budget=self._timeout))

    async def _forget(self, memory_id: str, tenant: str) -> ForgetResult:
        named = quote(memory_id, safe="")
        place = f"/v1/memory?id={named}&" if memory_id in NO_PATH else f"/v1/memories/{named}?"
        path = f"{place}tenant={quote(tenant, safe='')}"
        return _checked(ForgetResult, await self._service.ask("DELETE", path, budget=self._timeout, again=False))


def _checked(kind: type[Model], body: Mapping[str, Any]) -> Model:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise BadReply(Reason.BAD_REPLY, _faults(error)) from None


def _nothing(kind: type[MemoryResult]) -> Callable[[Reason], MemoryResult]:
    def failed(reason: Reason) -> MemoryResult:
        _log.warning("the service did not do what was asked: %s", reason.value)
        return kind(reason=reason)

    return failed


def _faults(error: ValidationError) -> str:
    """What is wrong, without the input, which the error's own text would repeat."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:5])
