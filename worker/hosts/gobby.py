"""Gobby: the two workflow actions for memory injection. An event names its `action`.

`memory_recall_relevant` gets `session_id`, `prompt_text` and optionally `project_id`, `limit` and `min_importance`, and
returns `inject_context`, and as `filtered` the number of memories that the session has already.
`reset_memory_injection_tracking` clears the session's ledger.
"""

from typing import Any

from hooks.contract import (
    InjectionRequest,
    InjectionResult,
    RenderOptions,
    Retention,
    SessionEvent,
    SessionEventResult,
    SessionEventType,
    clean_text,
    new_turn_id,
)

from .fields import key, text, within
from .profile import Follow, HookCaller, HostEvent, HostProfile, HostRequest, Inject, Native, Role

RECALL = "memory_recall_relevant"
RESET = "reset_memory_injection_tracking"
RENDER = RenderOptions()
NOTHING: Native = {"injected": False, "count": 0}


PASTE = """\
# called by the actions memory_recall_relevant and reset_memory_injection_tracking
import asyncio
import json
from asyncio.subprocess import PIPE

NOTHING = {"injected": False, "count": 0}


async def meeseeks(action, session_id, prompt_text=None, project_id=None, limit=None, min_importance=None):
    event = {"action": action, "session_id": session_id, "prompt_text": prompt_text, "project_id": project_id}
    event |= {"limit": limit, "min_importance": min_importance}
    try:
        async with asyncio.timeout(3.8):
            hook = await asyncio.create_subprocess_exec("meeseeks-hook", "gobby", stdin=PIPE, stdout=PIPE)
            output, _ = await hook.communicate(json.dumps(event).encode())
        return json.loads(output)
    except (OSError, ValueError, TimeoutError):
        return NOTHING
"""
"""Code for Gobby's actions."""


def understand(event: Native, caller: HookCaller) -> HostRequest | None:
    """Return the request for an action."""
    session_id, action = key(event, "session_id"), text(event, "action")
    if not session_id:
        return None
    if action == RESET:
        kind, tenant = SessionEventType.SESSION_CLEARED, caller.scope.tenant
        return Follow(SessionEvent(type=kind, session_id=session_id, tenant=tenant, deadline_ms=caller.deadline_ms))
    prompt = _prompt(event)
    if action != RECALL or prompt is None:
        return None
    return Inject(
        InjectionRequest(
            session_id=session_id,
            agent_id=key(event, "agent_id") or "main",
            turn_id=key(event, "turn_id") or new_turn_id(),
            message=prompt,
            scope=within(caller.scope, project=text(event, "project_id")),
            retention=Retention.HISTORY,
            render=RenderOptions(max_items=_limit(event)),
            min_importance=_least_importance(event),
            deadline_ms=caller.deadline_ms,
        )
    )


def _limit(event: Native) -> int | None:
    """Return the most memories that the action asks for."""
    most = event.get("limit")
    return max(1, min(most, 100)) if isinstance(most, int) and not isinstance(most, bool) else None


def _least_importance(event: Native) -> float | None:
    least = event.get("min_importance")
    return max(0.0, min(float(least), 1.0)) if isinstance(least, int | float) and not isinstance(least, bool) else None


def _prompt(event: Native) -> str | None:
    """Return the prompt from the action or from the event that triggered it; `None` if there is none at all."""
    inner = event.get("event_data")
    data = inner if isinstance(inner, dict) else {}
    given = (event.get("prompt_text"), data.get("prompt"), data.get("prompt_text"))
    said = [str(clean_text(value)) for value in given if isinstance(value, str)]
    return next((value for value in said if value), said[0] if said else None)


def answer(event: Native, result: InjectionResult) -> dict[str, Any]:
    """Return the result of a recall action with the block."""
    count = len(result.items)
    return {"inject_context": result.memory_context, "injected": True, "count": count, "filtered": result.filtered}


def followed(event: Native, result: SessionEventResult) -> dict[str, Any]:
    """Return the result of a reset action."""
    return {"memory_tracking_reset": result.done, "previous_count": result.forgotten}


def faults(event: Native, output: Any) -> list[str]:
    """Return why Gobby would misinterpret an output."""
    if not isinstance(output, dict):
        return ["the output must be an object"]
    if text(event, "action") == RESET:
        valid = {"memory_tracking_reset", "previous_count"} <= set(output) or output == NOTHING
        return [] if valid else ["the output must have memory_tracking_reset and previous_count"]
    injected, count = output.get("injected"), output.get("count")
    if not isinstance(injected, bool) or not isinstance(count, int):
        return ["the output must have injected and count"]
    if injected is not isinstance(output.get("inject_context"), str):
        return ["inject_context must be present exactly if injected is true"]
    return [] if injected is (count > 0) else ["count must be the number of memories"]


def example(session_id: str, message: str) -> dict[str, Any]:
    return {"action": RECALL, "session_id": session_id, "turn_id": session_id, "prompt_text": message}


PROFILE = HostProfile(
    name="gobby",
    title="Gobby",
    retention=Retention.HISTORY,
    render=RENDER,
    limit="none",
    events=(HostEvent(RECALL, Role.INJECTS), HostEvent(RESET, Role.FOLLOWS)),
    understand=understand,
    answer=answer,
    faults=faults,
    example=example,
    nothing=NOTHING,
    about_nothing=lambda result: {"filtered": result.filtered} if result.filtered else {},
    paste=PASTE,
    followed=followed,
)
