"""The `worker:pre_execution` hook, called before every worker run."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from .contract import InjectionRequest, InjectionResult, SessionEvent, SessionEventResult
from .contract.blocks import know_key
from .failing import elapsed_ms, event_not_done, no_memory, safely, skipped
from .protocol import wire
from .queue import Reply
from .queue.hook import QueueHook

_log = logging.getLogger(__name__)


class PreExecutionHook(QueueHook):
    """Get the relevant memories for a worker run within the request's deadline.

    Calls never raise and take at most a few milliseconds more than `deadline_ms`. Without memories, the result carries
    the reason and the message stays as it is. One hook serves concurrent calls on any event loop. After Redis hangs
    several times in a row, calls fail at once for a second; see `queue.guarded`.

        async with PreExecutionHook() as hook:
            message = await hook.prefix(message, session_id="s1")
    """

    async def __call__(self, request: InjectionRequest | Mapping[str, Any]) -> InjectionResult:
        """Return the block for a request, or an outcome and a reason."""
        started = time.monotonic()
        return await safely(self._inject(request, started), lambda reason: no_memory(request, reason, started))

    async def event(self, event: SessionEvent | Mapping[str, Any]) -> SessionEventResult:
        """Report a session event, so that the ledger stays correct: `await hook.event({"type": ..., ...})`.

        Never raises and takes at most a few milliseconds more than the event's `deadline_ms`.
        """
        started = time.monotonic()
        result = await safely(self._send(event), event_not_done)
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def prefix(self, message: str, *, session_id: str, **fields: Any) -> str:
        """Return `message` with the block in front, if there is one. `fields` are more request fields."""
        return (await self({**fields, "message": message, "session_id": session_id})).prefix(message)

    async def _inject(self, given: InjectionRequest | Mapping[str, Any], started: float) -> InjectionResult:
        request = InjectionRequest.model_validate(given)
        if (known := skipped(request, started)) is not None:
            return known
        deadline = started + request.deadline_ms / 1000
        result, reply = await self._ask(wire.INJECT, request, InjectionResult, deadline - time.monotonic())
        know_key(result.block_key)
        await self._commit(reply, deadline)
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def _send(self, given: SessionEvent | Mapping[str, Any]) -> SessionEventResult:
        event = SessionEvent.model_validate(given)
        result, _ = await self._ask(wire.SESSION_EVENT, event, SessionEventResult, event.deadline_ms / 1000)
        return result

    async def _commit(self, reply: Reply, deadline: float) -> None:
        """Mark the memories as shown. If this fails, they may be shown once more later."""
        left = deadline - time.monotonic()
        if reply.commit is None or left <= 0:
            return
        if not await self._queue.commit(*reply.commit, timeout=min(wire.COMMIT_TIMEOUT, left)):
            _log.warning("could not mark an injected block as shown in the ledger")
