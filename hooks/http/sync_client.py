"""Blocking client of the HTTP API for plain threads."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from ..background import Blocking, Unfinished
from ..contract import InjectionRequest, InjectionResult, Reason, SessionEvent, SessionEventResult
from ..contract.capture import CaptureRequest, CaptureResult
from ..contract.memories import ForgetResult, RecallResult, RememberResult
from ..contract.usage import AnswerReport, AnswerReportResult
from ..failing import event_not_done, no_memory, report_not_done
from ..faults import DeadlinePassed
from .client import DEFAULT_TIMEOUT, MeeseeksClient

T = TypeVar("T")


class SyncMeeseeksClient(Blocking):
    """Blocking `MeeseeksClient` for plain threads, with the same arguments and guarantees.

    One background thread per process does the work; it starts on first use and restarts after a fork. One client serves
    any number of threads.

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
        """Return the block for a request, given as a model, a mapping or keyword arguments."""
        started = time.monotonic()
        given = fields if request is None else request
        return self._do(lambda: self._client.inject(given), lambda reason: no_memory(given, reason, started))

    def prefix(self, message: str, *, session_id: str, **fields: Any) -> str:
        """Return `message` with the block in front, if there is one. `fields` are more request fields."""
        return self.inject({**fields, "message": message, "session_id": session_id}).prefix(message)

    def event(self, event: SessionEvent | Mapping[str, Any] | None = None, **fields: Any) -> SessionEventResult:
        """Report a session event, so that the ledger stays correct: `event(type="session.cleared", ...)`."""
        given = fields if event is None else event
        return self._do(lambda: self._client.event(given), event_not_done)

    def report(self, report: AnswerReport | Mapping[str, Any] | None = None, **fields: Any) -> AnswerReportResult:
        """Report a worker's answer, to count which memories it used: `report(answer=..., ...)`."""
        given = fields if report is None else report
        return self._do(lambda: self._client.report(given), report_not_done)

    def capture(self, request: CaptureRequest | Mapping[str, Any] | None = None, **fields: Any) -> CaptureResult:
        """Capture memories from turns of a conversation: `capture(session_id=..., turns=[{"role": ..., "text": ...}])`.

        Turns that were captured before are skipped, so a failed call can be repeated with the same turns.
        """
        given = fields if request is None else request
        return self._do(lambda: self._client.capture(given), CaptureResult.failed)

    def recall(self, query: str, **fields: Any) -> RecallResult:
        """Search memories. `fields` are more fields of `RecallRequest`, such as `limit` and `types`."""
        return self._do(lambda: self._client.recall(query, **fields), lambda reason: RecallResult(reason=reason))

    def remember(self, content: str, *, tenant: str = "default", **fields: Any) -> RememberResult:
        """Store a memory. Duplicates are stored once. `fields` are more fields of a memory."""
        return self._do(
            lambda: self._client.remember(content, tenant=tenant, **fields),
            lambda reason: RememberResult(reason=reason),
        )

    def forget(self, memory_id: str, *, tenant: str = "default") -> ForgetResult:
        """Delete a memory permanently."""
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
