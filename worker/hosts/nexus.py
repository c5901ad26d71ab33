"""Nexus: an automation at the blocking hook point `worker:pre_execution`.

The event is the automation's context, `{"request": {...}}`, or the worker's request; `event.content` is the task. Nexus
puts `enrich.memories` into its own frame, `<memory_context>`, so the block is returned without its frame.
"""

from typing import Any

from hooks.contract import InjectionRequest, InjectionResult, RenderOptions, Retention, new_turn_id
from hooks.contract.blocks import FRAMES, XML_FRAME

from .fields import key, text, within
from .profile import HookCaller, HostEvent, HostProfile, HostRequest, Inject, Native, Role

HOOK_POINT = "worker:pre_execution"
RENDER = RenderOptions()
NOTHING: Native = {"fire": False, "blocking": True, "enrich": {"memories": None}}


PASTE = """\
// ~/.nexus/state/hooks/scripts/memory-injection.ts
import { spawn } from "node:child_process";

const NOTHING = { fire: false, blocking: true, enrich: { memories: null } };

export default async function memoryInjection(ctx) {
  try {
    const hook = spawn("meeseeks-hook", ["nexus"], { stdio: ["pipe", "pipe", "ignore"], timeout: 3800 });
    hook.on("error", () => {});
    hook.stdin.on("error", () => {});
    hook.stdin.end(JSON.stringify({ request: ctx.request }));
    let output = "";
    for await (const chunk of hook.stdout.setEncoding("utf8")) output += chunk;
    return JSON.parse(output);
  } catch {
    return NOTHING;
  }
}

-- and once, in the database of automations
INSERT INTO automations (name, hook_point, mode, status, blocking, script_path, workspace_dir, timeout_ms)
VALUES ('memory-injection', 'worker:pre_execution', 'persistent', 'active', 1,
  '~/.nexus/state/hooks/scripts/memory-injection.ts', '~/.nexus/state/meeseeks/memory-injection/', 4000);
"""
"""The script of the automation, and its database row."""


def understand(event: Native, caller: HookCaller) -> HostRequest | None:
    """Return the request for a worker's task; the session is the worker's label."""
    request = event["request"] if isinstance(event.get("request"), dict) else event
    content, request_id = text(request, "event", "content"), key(request, "request_id")
    routed = key(request, "access", "routing", "session_label")
    session_id = key(request, "agent", "session_label") or routed or request_id
    if not content or not session_id:
        return None
    user, channel = text(request, "principal", "entity_id"), text(request, "delivery", "channel")
    return Inject(
        InjectionRequest(
            session_id=session_id,
            agent_id=key(request, "agent", "agent_id") or "worker",
            turn_id=request_id or new_turn_id(),
            message=content,
            scope=within(caller.scope, user=user, channel=channel),
            retention=Retention.HISTORY,
            render=RENDER,
            deadline_ms=caller.deadline_ms,
        )
    )


def answer(event: Native, result: InjectionResult) -> dict[str, Any]:
    """Return the enrichment for the worker's message."""
    return {"fire": True, "blocking": True, "enrich": {"memories": unframed(result.memory_context or "")}}


def unframed(block: str) -> str:
    """Return a block without its frame."""
    for opening, closing in FRAMES:
        if block.startswith(opening) and block.endswith(closing):
            return block.removeprefix(opening).removesuffix(closing).strip("\n")
    return block


def faults(event: Native, output: Any) -> list[str]:
    """Return why Nexus would misinterpret an output."""
    if not isinstance(output, dict) or sorted(output) != ["blocking", "enrich", "fire"]:
        return ["the output must only have fire, blocking and enrich"]
    enrich = output["enrich"]
    if not isinstance(enrich, dict) or list(enrich) != ["memories"]:
        return ["enrich must only have memories"]
    memories = enrich["memories"]
    if not isinstance(memories, str | None):
        return ["enrich.memories must be text or null"]
    found = [] if output["fire"] is (memories is not None) else ["fire must be true exactly if there are memories"]
    if memories is not None and any(marker in memories for marker in XML_FRAME):
        found.append("enrich.memories must not include the frame, which Nexus adds")
    return found


def example(session_id: str, message: str) -> dict[str, Any]:
    request = {"request_id": session_id, "event": {"content": message}, "agent": {"session_label": session_id}}
    return {"request": request}


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
    example=example,
    nothing=NOTHING,
    paste=PASTE,
)
