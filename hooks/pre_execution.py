"""The `worker:pre_execution` hook: what an orchestrator awaits before every run of a worker."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from . import wire
from .contract import InjectionRequest, InjectionResult, Reason, SessionEvent, SessionEventResult
from .failing import elapsed_ms, event_not_done, no_memory, safely, skipped
from .queue import QueueFault, Reply
from .queue_hook import QueueHook
from .session import send_event

_log = logging.getLogger(__name__)


class PreExecutionHook(QueueHook):
    """Gets the memories that a run ought to have, within the request's deadline, or nothing and the reason.

    Calls never raise and never outlast `deadline_ms` by more than a few milliseconds; whatever breaks, the
    orchestrator goes on with the message as it is. One hook serves any number of calls at a time, on any event loop.
    Once Redis has hung several times in a row, calls fail at once for a second; see `guarded_queue`.

        async with PreExecutionHook() as hook:
            message = await hook.prefix(message, session_id="s1")
    """

    async def __call__(self, request: InjectionRequest | Mapping[str, Any]) -> InjectionResult:
        """The block for a request, or an outcome and a reason."""
        started = time.monotonic()
        return await safely(self._answer(request, started), lambda reason: no_memory(request, reason, started))

    async def event(self, event: SessionEvent | Mapping[str, Any]) -> SessionEventResult:
        """Tell what happened to a session, so that the ledger follows: `await hook.event({"type": ..., ...})`.

        Never raises, and never outlasts the event's `deadline_ms` by more than a few milliseconds.
        """
        started = time.monotonic()
        result = await safely(send_event(self._guarded, event), event_not_done)
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def prefix(self, message: str, *, session_id: str, **fields: Any) -> str:
        """`message` with the block in front of it, or as it is. `fields` are further fields of the request."""
        return (await self({**fields, "message": message, "session_id": session_id})).prefix(message)

    async def _answer(self, given: InjectionRequest | Mapping[str, Any], started: float) -> InjectionResult:
        request = given if isinstance(given, InjectionRequest) else InjectionRequest.model_validate(given)
        if (known := skipped(request, started)) is not None:
            return known
        deadline = started + request.deadline_ms / 1000
        payload = request.model_dump_json(exclude_none=True).encode()
        reply = await self._guarded.ask(wire.INJECT, payload, budget=deadline - time.monotonic())
        result = _result(reply)
        await self._commit(reply, deadline)
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def _commit(self, reply: Reply, deadline: float) -> None:
        """Tell the ledger what is about to be shown; should that fail, it may be shown once more later."""
        left = deadline - time.monotonic()
        if reply.commit is None or left <= 0:
            return
        if not await self._queue.commit(*reply.commit, timeout=min(wire.COMMIT_TIMEOUT, left)):
            _log.warning("the ledger was not told of a delivered block")


def _result(reply: Reply) -> InjectionResult:
    try:
        return InjectionResult.model_validate(reply.body)
    except ValidationError as error:
        raise QueueFault(Reason.BAD_REPLY) from error
