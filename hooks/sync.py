"""Blocking `worker:pre_execution` hook for plain threads."""

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
    """Blocking `PreExecutionHook` for plain threads, with the same guarantees.

    One background thread per process does the work; it starts on first use and restarts after a fork. One hook serves
    any number of threads. A call blocks its thread, so use `PreExecutionHook` inside an event loop.

        with SyncPreExecutionHook() as hook:
            message = hook.prefix(message, session_id="s1")
    """

    def __init__(self, redis_url: str | None = None) -> None:
        self._hook = PreExecutionHook(redis_url)
        super().__init__(self._hook)

    def __call__(self, request: InjectionRequest | Mapping[str, Any]) -> InjectionResult:
        """Return the block for a request, or an outcome and a reason."""
        started = time.monotonic()
        try:
            return self._wait_for(lambda: self._hook(request), seconds_of(request, DEFAULT_DEADLINE_MS))
        except Unfinished:
            return no_memory(request, Reason.DEADLINE, started)

    def event(self, event: SessionEvent | Mapping[str, Any]) -> SessionEventResult:
        """Report a session event, so that the ledger stays correct."""
        try:
            return self._wait_for(lambda: self._hook.event(event), seconds_of(event, DEFAULT_EVENT_DEADLINE_MS))
        except Unfinished:
            return event_not_done(Reason.DEADLINE)

    def prefix(self, message: str, *, session_id: str, **fields: Any) -> str:
        """Return `message` with the block in front, if there is one. `fields` are more request fields."""
        return self({**fields, "message": message, "session_id": session_id}).prefix(message)


def seconds_of(given: object, default_ms: int) -> float:
    """Return the deadline of a request or event in seconds; the default if invalid, as the call then fails anyway."""
    wanted = given.get("deadline_ms") if isinstance(given, Mapping) else getattr(given, "deadline_ms", None)
    if isinstance(wanted, int) and 0 < wanted <= MAX_DEADLINE_MS:
        return wanted / 1000
    return default_ms / 1000
