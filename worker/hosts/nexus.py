"""Nexus: an automation at the blocking hook point `worker:pre_execution`. Pure.

The event is the automation's context, `{"request": {...}}`, or the worker's request itself; `event.content` of the
request is the task. The host puts `enrich.memories` into a frame of its own, `<memory_context>`, before the worker's
message: what it is given is a block without its frame, so that what the worker reads is a block of ours.
"""

from typing import Any

from hooks.blocks import XML_FRAME
from hooks.contract import InjectionRequest, InjectionResult, RenderOptions, Retention, new_turn_id

from .fields import key, text, within
from .profile import Caller, HostEvent, HostProfile, Inject, Native, Role, Wish

HOOK_POINT = "worker:pre_execution"
RENDER = RenderOptions()
NOTHING: Native = {"fire": False, "blocking": True, "enrich": {"memories": None}}


def understand(event: Native, caller: Caller) -> Wish | None:
    """The memory of the worker's task, in the session of its label."""
    request = event["request"] if isinstance(event.get("request"), dict) else event
    content, request_id = text(request, "event", "content"), key(request, "request_id")
    routed = key(request, "access", "routing", "session_label")
    session_id = key(request, "agent", "session_label") or routed or request_id
    if not content or not session_id:
        return None
    scope = within(
        caller.scope,
        user=text(request, "principal", "entity_id"),
        channel=text(request, "delivery", "channel"),
    )
    return Inject(
        InjectionRequest(
            session_id=session_id,
            agent_id=key(request, "agent", "agent_id") or "worker",
            turn_id=request_id or new_turn_id(),
            message=content,
            scope=scope,
            retention=Retention.HISTORY,
            render=RENDER,
            deadline_ms=caller.deadline_ms,
        )
    )


def answer(event: Native, result: InjectionResult) -> dict[str, Any]:
    """The enrichment that the host puts before the worker's message."""
    return {"fire": True, "blocking": True, "enrich": {"memories": unframed(result.memory_context or "")}}


def unframed(block: str) -> str:
    """The notice and the memories of a block."""
    opening, closing = XML_FRAME
    return block.removeprefix(opening).removesuffix(closing).strip("\n")


def framed(memories: str) -> str:
    """What the host makes of an enrichment."""
    opening, closing = XML_FRAME
    return f"{opening}\n{memories}\n{closing}"


def faults(event: Native, output: Any) -> list[str]:
    """What the host would do something else with than intended; empty where nothing is wrong."""
    if not isinstance(output, dict) or sorted(output) != ["blocking", "enrich", "fire"]:
        return ["the output must have fire, blocking and enrich and nothing else"]
    enrich = output["enrich"]
    if not isinstance(enrich, dict) or list(enrich) != ["memories"]:
        return ["enrich must have memories and nothing else"]
    memories = enrich["memories"]
    if not isinstance(memories, str | None):
        return ["enrich.memories must be a text or null"]
    found = [] if output["fire"] is (memories is not None) else ["fire must say whether there are memories"]
    if memories is not None and any(marker in memories for marker in XML_FRAME):
        found.append("enrich.memories must not have the frame that the host puts around it")
    return found


PROFILE = HostProfile(
    name="nexus",
    title="Nexus",
    retention=Retention.HISTORY,
    render=RENDER,
    limit="none",
    events=(HostEvent(HOOK_POINT, Role.INJECTS),),
    understand=understand,
    answer=answer,
    faults=faults,
    nothing=NOTHING,
)
