"""Events and output shared by Claude Code and Codex.

Sources: the hooks reference of Claude Code (2.1) and the hook schemas of Codex (0.171).
"""

from collections.abc import Iterable
from typing import Any

from hooks.contract import (
    InjectionRequest,
    InjectionResult,
    RenderOptions,
    Retention,
    SessionEvent,
    SessionEventType,
    new_turn_id,
)
from worker.text.counts import counted

from .fields import key, text, within
from .profile import Announce, Follow, HookCaller, HostRequest, Inject, Native, Start, SubagentKind, SubagentTask

MAIN_AGENT = "main"
DEFAULT_SUBAGENT = "general-purpose"
"""Type of a subagent that is started without one."""

MOST_PROMPT_CHARS = 16_384
"""Maximum length of a subagent's task that is kept until it starts."""

SOURCES = {
    "sdk": "user",
    "system": "retrigger",
    "loop_wakeup": "cron",
    "schedule_wakeup": "cron",
    "poll_event": "heartbeat",
}
"""Claude Code's names of prompt sources that differ from the contract; `system` is a prompt that nobody wrote."""

STARTS = {
    "startup": SessionEventType.SESSION_RESUMED,
    "resume": SessionEventType.SESSION_RESUMED,
    "clear": SessionEventType.SESSION_CLEARED,
    "compact": SessionEventType.CONTEXT_COMPACTED,
    "fork": SessionEventType.SESSION_FORKED,
}
"""Session events by the `source` of `SessionStart`.

A new session has an id of its own, so `startup` has nothing to clear; hosts report it during or after the first prompt.
"""


def event_name(event: Native) -> str:
    return text(event, "hook_event_name")


def agent_of(event: Native) -> str:
    """Return the agent that owns the context; subagents have their own ids."""
    return key(event, "agent_id") or key(event, "agent_type") or MAIN_AGENT


def prompted(event: Native, caller: HookCaller, render: RenderOptions, turn: str) -> HostRequest | None:
    """Handle `UserPromptSubmit`; `turn` is the name of the field with the turn's id."""
    session_id = key(event, "session_id")
    if not session_id or not isinstance(event.get("prompt"), str):
        return None
    source = text(event, "source") or "user"
    return Inject(
        InjectionRequest(
            session_id=session_id,
            agent_id=agent_of(event),
            turn_id=key(event, turn) or new_turn_id(),
            message=text(event, "prompt"),
            source=SOURCES.get(source, source),
            scope=caller.scope,
            retention=Retention.HISTORY,
            render=render,
            deadline_ms=caller.deadline_ms,
        )
    )


def started(event: Native, caller: HookCaller) -> HostRequest | None:
    """Handle `SessionStart`."""
    return _follow(event, caller, STARTS.get(text(event, "source")))


def compacting(event: Native, caller: HookCaller) -> HostRequest | None:
    return _follow(event, caller, SessionEventType.CONTEXT_COMPACTING)


def compacted(event: Native, caller: HookCaller) -> HostRequest | None:
    return _follow(event, caller, SessionEventType.CONTEXT_COMPACTED)


def ended(event: Native, caller: HookCaller) -> HostRequest | None:
    """Handle `SessionEnd`, which only matters if the conversation was cleared."""
    return _follow(event, caller, SessionEventType.SESSION_CLEARED if text(event, "reason") == "clear" else None)


def _follow(event: Native, caller: HookCaller, kind: SessionEventType | None) -> HostRequest | None:
    session_id = key(event, "session_id")
    if kind is None or not session_id:
        return None
    agent = key(event, "agent_id") or None
    tenant = caller.scope.tenant
    return Follow(
        SessionEvent(type=kind, session_id=session_id, agent_id=agent, tenant=tenant, deadline_ms=caller.deadline_ms)
    )


def announced(event: Native, caller: HookCaller) -> HostRequest | None:
    """Handle `PreToolUse` of the tool that starts subagents, the only event that includes the task."""
    given = event.get("tool_input")
    session_id, prompt = key(event, "session_id"), text(given, "prompt")
    if not session_id or not prompt:
        return None
    kind = SubagentKind(caller.scope.tenant, session_id, key(given, "subagent_type") or DEFAULT_SUBAGENT)
    task = SubagentTask(
        prompt[:MOST_PROMPT_CHARS], text(given, "description") or None, key(event, "tool_use_id") or None
    )
    return Announce(kind, task)


def subagent_started(event: Native, caller: HookCaller, render: RenderOptions) -> HostRequest | None:
    """Handle `SubagentStart`, which includes the subagent's id, but not its task."""
    session_id, agent_id = key(event, "session_id"), key(event, "agent_id")
    if not session_id or not agent_id:
        return None
    agent_type = key(event, "agent_type") or DEFAULT_SUBAGENT

    def request_for(task: SubagentTask) -> InjectionRequest:
        return InjectionRequest(
            session_id=session_id,
            agent_id=agent_id,
            turn_id=task.turn_id or new_turn_id(),
            message=task.prompt,
            task_description=task.description,
            source="subagent",
            scope=within(caller.scope, agent=agent_type),
            retention=Retention.HISTORY,
            render=render,
            deadline_ms=caller.deadline_ms,
        )

    return Start(SubagentKind(caller.scope.tenant, session_id, agent_type), request_for)


def additional_context(event: Native, result: InjectionResult) -> dict[str, Any]:
    """Return the block as context, with only keys that both hosts support."""
    return {
        "hookSpecificOutput": {"hookEventName": event_name(event), "additionalContext": result.memory_context or ""}
    }


def sign(event: Native, count: int) -> dict[str, Any]:
    """Return what tells the user how many memories a prompt got."""
    return {"systemMessage": f"Meeseeks: {counted(count)}"} if event_name(event) == "UserPromptSubmit" else {}


def output_faults(event: Native, output: Any, injecting: Iterable[str]) -> list[str]:
    """Return why an output is invalid for both hosts: it must be empty, tell the user something, or provide context."""
    if output == {}:
        return []
    if not isinstance(output, dict) or not output.keys() <= {"hookSpecificOutput", "systemMessage"}:
        return ["the output must be {} or only have hookSpecificOutput and systemMessage"]
    if not isinstance(output.get("systemMessage", ""), str):
        return ["systemMessage must be text"]
    if "hookSpecificOutput" not in output:
        return []
    inner = output["hookSpecificOutput"]
    if not isinstance(inner, dict) or sorted(inner) != ["additionalContext", "hookEventName"]:
        return ["hookSpecificOutput must only have hookEventName and additionalContext"]
    faults = []
    if inner["hookEventName"] != event_name(event):
        faults.append(f"hookEventName must be {event_name(event)}, the event that was sent")
    if event_name(event) not in injecting:
        faults.append(f"{event_name(event)} does not accept context")
    if not isinstance(inner["additionalContext"], str):
        faults.append("additionalContext must be text")
    return faults
