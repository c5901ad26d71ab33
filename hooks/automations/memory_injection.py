"""The automation `memory-injection`: what the worker ought to remember, as an enrichment of its message."""

import os
from collections.abc import Mapping
from typing import Any

from ..client import MeeseeksClient
from ..contract import DEFAULT_DEADLINE_MS, MAX_DEADLINE_MS, InjectionResult
from ..pre_execution import PreExecutionHook

MARGIN_MS = 50
"""Milliseconds of its time that an automation keeps back, so that its answer comes before it is ended."""


class MemoryInjection:
    """Asks the service over HTTP where MEESEEKS_URL says one, else through Redis, with the event as the request.

    Enriches with `memory_context` (the whole block) and `memories` (its lines, for hosts that have a frame of their
    own), and says why when there is nothing.
    """

    def __init__(self) -> None:
        self._client = MeeseeksClient() if os.environ.get("MEESEEKS_URL") else None
        self._hook = PreExecutionHook()

    async def __call__(self, event: Mapping[str, Any]) -> dict[str, Any]:
        result = await self._asked({**event, "deadline_ms": _deadline_ms(event)})
        if result.memory_context is None:
            return {"fire": False, "reason": result.reason or result.outcome}
        return {"fire": True, "enrich": {"memory_context": result.memory_context, "memories": result.text}}

    async def aclose(self) -> None:
        await self._hook.aclose()
        if self._client is not None:
            await self._client.aclose()

    async def _asked(self, request: Mapping[str, Any]) -> InjectionResult:
        return await (self._hook(request) if self._client is None else self._client.inject(request))


def _deadline_ms(event: Mapping[str, Any]) -> object:
    """What is left of the automation's own time, or what the event says where that is less, or wrong."""
    own, said = event.get("timeout_ms", DEFAULT_DEADLINE_MS), event.get("deadline_ms", MAX_DEADLINE_MS)
    if not isinstance(own, int) or not isinstance(said, int):
        return said
    return min(said, max(1, own - MARGIN_MS))
