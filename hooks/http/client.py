"""Asynchronous client of the HTTP API."""

import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from ..breaker import CircuitBreaker
from ..contract import (
    AnswerReport,
    AnswerReportResult,
    ForgetResult,
    InjectionRequest,
    InjectionResult,
    Reason,
    RecallRequest,
    RecallResult,
    RememberResult,
    SessionEvent,
    SessionEventResult,
    WireModel,
)
from ..contract.blocks import know_key
from ..contract.capture import CaptureRequest, CaptureResult
from ..contract.memories import cleaned
from ..contract.validation import describe_faults
from ..failing import elapsed_ms, event_not_done, no_memory, report_not_done, safely, skipped
from ..faults import BadReply, BadRequest
from .service import DEFAULT_URL, HttpService

DEFAULT_TIMEOUT = 2.8
"""Seconds that a call may take; a little less than the three seconds that hosts give a hook."""

FAILURES = 3
"""Calls in a row without any answer before calls are paused."""

PAUSE = 5.0
"""Seconds without calls, or half a second if the service failed at once; then one call tries again."""

NO_PATH = frozenset({"export", "import", ".", ".."})
"""Memory ids that do not work in a path: other endpoints, or segments that HTTP clients remove."""

_log = logging.getLogger(__name__)

T = TypeVar("T")
Model = TypeVar("Model", bound=WireModel)
MemoryResult = TypeVar("MemoryResult", RecallResult, RememberResult, ForgetResult)


class MeeseeksClient:
    """Asynchronous client of the HTTP API. Needs httpx (`meeseeks-hooks[http]`).

    Calls never raise and never take longer than `timeout` seconds or the request's `deadline_ms`. A failed call returns
    a result with a reason, or raises `faults.ClientError` with `strict`. `url` and `token` default to MEESEEKS_URL and
    MEESEEKS_TOKEN. Keep one client per process to reuse connections. It serves concurrent calls on any event loop.

        async with MeeseeksClient() as client:
            message = await client.prefix(message, session_id="s1")

    The service marks memories as shown once it has sent them to a caller that is still waiting.
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
            raise ValueError("timeout must be positive")
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
        """Maximum seconds that a call takes."""
        return self._timeout

    async def inject(
        self, request: InjectionRequest | Mapping[str, Any] | None = None, **fields: Any
    ) -> InjectionResult:
        """Return the block for a request, given as a model, a mapping or keyword arguments."""
        started = time.monotonic()
        given = fields if request is None else request
        return await self._guarded(self._inject(given, started), lambda reason: no_memory(given, reason, started))

    async def prefix(self, message: str, *, session_id: str, **fields: Any) -> str:
        """Return `message` with the block in front, if there is one. `fields` are more request fields."""
        result = await self.inject({**fields, "message": message, "session_id": session_id})
        return result.prefix(message)

    async def event(self, event: SessionEvent | Mapping[str, Any] | None = None, **fields: Any) -> SessionEventResult:
        """Report a session event, so that the ledger stays correct: `event(type="session.cleared", ...)`."""
        started = time.monotonic()
        given = fields if event is None else event
        result = await self._guarded(self._event(given), event_not_done)
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def report(self, report: AnswerReport | Mapping[str, Any] | None = None, **fields: Any) -> AnswerReportResult:
        """Report a worker's answer, to count which memories it used: `report(answer=..., ...)`."""
        started = time.monotonic()
        given = fields if report is None else report
        result = await self._guarded(self._report(given), report_not_done)
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def capture(self, request: CaptureRequest | Mapping[str, Any] | None = None, **fields: Any) -> CaptureResult:
        """Capture memories from turns of a conversation: `capture(session_id=..., turns=[{"role": ..., "text": ...}])`.

        Turns that were captured before are skipped, so a failed call can be repeated with the same turns.
        """
        return await self._guarded(self._capture(fields if request is None else request), CaptureResult.failed)

    async def recall(self, query: str, **fields: Any) -> RecallResult:
        """Search memories. `fields` are more fields of `RecallRequest`, such as `limit` and `types`."""
        return await self._guarded(self._recall(query, fields), _failed(RecallResult))

    async def remember(self, content: str, *, tenant: str = "default", **fields: Any) -> RememberResult:
        """Store a memory. Duplicates are stored once. `fields` are more fields of a memory."""
        return await self._guarded(self._remember(content, tenant, fields), _failed(RememberResult))

    async def forget(self, memory_id: str, *, tenant: str = "default") -> ForgetResult:
        """Delete a memory permanently."""
        return await self._guarded(self._forget(memory_id, tenant), _failed(ForgetResult))

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._service.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _guarded(self, work: Awaitable[T], failed: Callable[[Reason], T]) -> T:
        if not self._strict:
            return await safely(work, failed)
        try:
            return await work
        except ValidationError as error:
            raise BadRequest(Reason.BAD_REQUEST, describe_faults(error)) from None

    async def _inject(self, given: InjectionRequest | Mapping[str, Any], started: float) -> InjectionResult:
        request = InjectionRequest.model_validate(given)
        if (known := skipped(request, started)) is not None:
            return known
        budget = min(self._timeout, request.deadline_ms / 1000) - (time.monotonic() - started)
        request = request.model_copy(update={"deadline_ms": max(1, int(budget * 1000))})
        body = request.model_dump(mode="json", exclude_none=True)
        result = _validated(InjectionResult, await self._service.ask("POST", "/v1/inject", body, budget=budget))
        know_key(result.block_key)
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def _event(self, given: SessionEvent | Mapping[str, Any]) -> SessionEventResult:
        event = SessionEvent.model_validate(given)
        budget = min(self._timeout, event.deadline_ms / 1000)
        body = event.model_dump(mode="json", exclude_none=True)
        path = f"/v1/sessions/{quote(event.session_id, safe='')}/events"
        return _validated(SessionEventResult, await self._service.ask("POST", path, body, budget=budget))

    async def _report(self, given: AnswerReport | Mapping[str, Any]) -> AnswerReportResult:
        report = AnswerReport.model_validate(given)
        budget = min(self._timeout, report.deadline_ms / 1000)
        body = report.model_dump(mode="json", exclude_none=True)
        return _validated(AnswerReportResult, await self._service.ask("POST", "/v1/answers", body, budget=budget))

    async def _capture(self, given: CaptureRequest | Mapping[str, Any]) -> CaptureResult:
        body = CaptureRequest.model_validate(given).model_dump(mode="json", exclude_none=True)
        return _validated(CaptureResult, await self._service.ask("POST", "/v1/capture", body, budget=self._timeout))

    async def _recall(self, query: str, fields: Mapping[str, Any]) -> RecallResult:
        request = RecallRequest.model_validate({**fields, "query": query})
        body = request.model_dump(mode="json", exclude_defaults=True)
        return _validated(RecallResult, await self._service.ask("POST", "/v1/recall", body, budget=self._timeout))

    async def _remember(self, content: str, tenant: str, fields: Mapping[str, Any]) -> RememberResult:
        body = {"tenant": tenant, "memory": cleaned({**fields, "content": content})}
        return _validated(RememberResult, await self._service.ask("POST", "/v1/memories", body, budget=self._timeout))

    async def _forget(self, memory_id: str, tenant: str) -> ForgetResult:
        quoted = quote(memory_id, safe="")
        base = f"/v1/memory?id={quoted}&" if memory_id in NO_PATH else f"/v1/memories/{quoted}?"
        path = f"{base}tenant={quote(tenant, safe='')}"
        return _validated(ForgetResult, await self._service.ask("DELETE", path, budget=self._timeout, retry=False))


def _validated(kind: type[Model], body: Mapping[str, Any]) -> Model:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise BadReply(Reason.BAD_REPLY, describe_faults(error)) from None


def _failed(kind: type[MemoryResult]) -> Callable[[Reason], MemoryResult]:
    def failed(reason: Reason) -> MemoryResult:
        _log.warning("the call failed: %s", reason.value)
        return kind(reason=reason)

    return failed
