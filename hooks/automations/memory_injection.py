"""The automation `memory-injection`, which adds relevant memories to the worker's message."""

import os
from collections.abc import Mapping
from typing import Any

from ..contract import DEFAULT_DEADLINE_MS, MAX_DEADLINE_MS
from ..http.client import MeeseeksClient
from ..pre_execution import PreExecutionHook

MARGIN_MS = 50
"""Milliseconds kept in reserve, so that the answer arrives before the automation's timeout."""


class MemoryInjection:
    """Send the event as a request over HTTP if MEESEEKS_URL is set, else through Redis.

    Adds `memory_context` (the whole block) and `memories` (its lines, for hosts with their own frame), or returns a
    reason.
    """

    def __init__(self) -> None:
        self._client = MeeseeksClient() if os.environ.get("MEESEEKS_URL") else None
        self._hook = PreExecutionHook()

    async def __call__(self, event: Mapping[str, Any]) -> dict[str, Any]:
        request = {**event, "deadline_ms": _deadline_ms(event)}
        result = await (self._hook(request) if self._client is None else self._client.inject(request))
        if result.memory_context is None:
            return {"fire": False, "reason": result.reason or result.outcome}
        return {"fire": True, "enrich": {"memory_context": result.memory_context, "memories": result.text}}

    async def aclose(self) -> None:
        await self._hook.aclose()
        if self._client is not None:
            await self._client.aclose()


def _deadline_ms(event: Mapping[str, Any]) -> object:
    """Return the smaller of the automation's time left and the event's deadline; an invalid deadline unchanged."""
    own, asked = event.get("timeout_ms", DEFAULT_DEADLINE_MS), event.get("deadline_ms", MAX_DEADLINE_MS)
    if not isinstance(own, int) or not isinstance(asked, int):
        return asked
    return min(asked, max(1, own - MARGIN_MS))
