"""The client of the HTTP service for plain threads: the same calls, blocking, in time."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from .background import Blocking, Unfinished
from .client import DEFAULT_TIMEOUT, MeeseeksClient
from .contract import InjectionRequest, InjectionResult, Reason, SessionEvent, SessionEventResult
from .failing import event_not_done, no_memory, report_not_done
from .faults import DeadlinePassed
from .memory_contract import ForgetResult, RecallResult, RememberResult
from .usage_contract import AnswerReport, AnswerReportResult

T = TypeVar("T")


class SyncMeeseeksClient(Blocking):
    """`MeeseeksClient` for callers that do not await; see there for what is promised and for the arguments.

    The work is done by one background thread of the process, which starts with the first call, is started anew after a
    fork and ends with the process. One client serves any number of threads.

        with SyncMeeseeksClient() as client:
            message = client.prefix(message, session_id="s1")
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        strict: bool = False,
    ) -> None:
        self._client = MeeseeksClient(url, token=token, timeout=timeout, strict=strict)
        super().__init__(self._client)
        self._strict = strict

    def inject(self, request: InjectionRequest | Mapping[str, Any] | None = None, **fields: Any) -> InjectionResult:
        """The block for a request, given as a model, a mapping or its fields, or an outcome and a reason."""
        started = time.monotonic()
        given = fields if request is None else request
        return self._do(lambda: self._client.inject(given), lambda reason: no_memory(given, reason, started))

    def prefix(self, message: str, *, session_id: str, **fields: Any) -> str:
        """`message` with the block in front of it, or as it is. `fields` are further fields of the request."""
        return self.inject({**fields, "message": message, "session_id": session_id}).prefix(message)

    def event(self, event: SessionEvent | Mapping[str, Any] | None = None, **fields: Any) -> SessionEventResult:
        """Tell what happened to a session, so that the ledger follows: `event(type="session.cleared", ...)`."""
        given = fields if event is None else event
        return self._do(lambda: self._client.event(given), event_not_done)

    def report(self, report: AnswerReport | Mapping[str, Any] | None = None, **fields: Any) -> AnswerReportResult:
        """Tell what a worker answered, so that it is counted which memories it used: `report(answer=..., ...)`."""
        given = fields if report is None else report
        return self._do(lambda: self._client.report(given), report_not_done)

    def recall(self, query: str, **fields: Any) -> RecallResult:
        """Search by hand; `fields` are further ones of `memory_contract.RecallRequest`, such as `limit` and `types`."""
        return self._do(lambda: self._client.recall(query, **fields), lambda reason: RecallResult(reason=reason))

    def remember(self, content: str, *, tenant: str = "default", **fields: Any) -> RememberResult:
        """Store a memory; saying the same twice stores it once. `fields` are further fields of a memory."""
        return self._do(
            lambda: self._client.remember(content, tenant=tenant, **fields),
            lambda reason: RememberResult(reason=reason),
        )

    def forget(self, memory_id: str, *, tenant: str = "default") -> ForgetResult:
        """Delete a memory for good."""
        return self._do(
            lambda: self._client.forget(memory_id, tenant=tenant), lambda reason: ForgetResult(reason=reason)
        )

    def _do(self, work: Callable[[], Awaitable[T]], failed: Callable[[Reason], T]) -> T:
        try:
            return self._wait_for(work, self._client.timeout)
        except Unfinished:
            if self._strict:
                raise DeadlinePassed(Reason.DEADLINE) from None
            return failed(Reason.DEADLINE)
