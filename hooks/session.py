"""Session events at the caller: what happened to a conversation is told to the worker, which corrects the ledger."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from . import wire
from .contract import Reason, SessionEvent, SessionEventResult
from .guarded_queue import GuardedQueue
from .queue import QueueFault


async def send_event(queue: GuardedQueue, given: SessionEvent | Mapping[str, Any]) -> SessionEventResult:
    """Tell the worker, within the event's deadline. Raises `QueueFault`, and `ValidationError` for a wrong event."""
    event = given if isinstance(given, SessionEvent) else SessionEvent.model_validate(given)
    payload = event.model_dump_json(exclude_none=True).encode()
    reply = await queue.ask(wire.SESSION_EVENT, payload, budget=event.deadline_ms / 1000)
    try:
        return SessionEventResult.model_validate(reply.body)
    except ValidationError as error:
        raise QueueFault(Reason.BAD_REPLY) from error
