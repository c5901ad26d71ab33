"""The hook for plain threads: the same calls, blocking, in time, also inside the thread of a running event loop."""

import time
from collections.abc import Mapping
from typing import Any

from .background import Blocking, Unfinished
from .contract import (
    DEFAULT_DEADLINE_MS,
    DEFAULT_EVENT_DEADLINE_MS,
    MAX_DEADLINE_MS,
    InjectionRequest,
    InjectionResult,
    Reason,
    SessionEvent,
    SessionEventResult,
)
from .failing import event_not_done, no_memory
from .pre_execution import PreExecutionHook


class SyncPreExecutionHook(Blocking):
    """`PreExecutionHook` for callers that do not await. Never raises, and never late, even where the loop hangs.

    The work is done by one background thread of the process, which starts with the first call, is started anew after a
    fork and ends with the process. One hook serves any number of threads. A call blocks its own thread: where that runs
    an event loop, prefer `PreExecutionHook`.

        with SyncPreExecutionHook() as hook:
            message = hook.prefix(message, session_id="s1")
    """

    def __init__(self, redis_url: str | None = None) -> None:
        self._hook = PreExecutionHook(redis_url)
        super().__init__(self._hook)

    def __call__(self, request: InjectionRequest | Mapping[str, Any]) -> InjectionResult:
        """The block for a request, or an outcome and a reason."""
        started = time.monotonic()
        try:
            return self._wait_for(lambda: self._hook(request), seconds_of(request, DEFAULT_DEADLINE_MS))
        except Unfinished:
            return no_memory(request, Reason.DEADLINE, started)

    def event(self, event: SessionEvent | Mapping[str, Any]) -> SessionEventResult:
        """Tell what happened to a session, so that the ledger follows."""
        try:
            return self._wait_for(lambda: self._hook.event(event), seconds_of(event, DEFAULT_EVENT_DEADLINE_MS))
        except Unfinished:
            return event_not_done(Reason.DEADLINE)

    def prefix(self, message: str, *, session_id: str, **fields: Any) -> str:
        """`message` with the block in front of it, or as it is. `fields` are further fields of the request."""
        return self({**fields, "message": message, "session_id": session_id}).prefix(message)


def seconds_of(given: object, default_ms: int) -> float:
    """The deadline of a request or event, in seconds; where it is not valid, the call fails at once anyhow."""
    wanted = given.get("deadline_ms") if isinstance(given, Mapping) else getattr(given, "deadline_ms", None)
    if isinstance(wanted, int) and 0 < wanted <= MAX_DEADLINE_MS:
        return wanted / 1000
    return default_ms / 1000
