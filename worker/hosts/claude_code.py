"""Claude Code (2.1): hooks in `settings.json`, as a command or over HTTP.

Claude Code silently replaces strings of more than 10,000 characters (UTF-16 code units) by a preview of 2 KB.
"""

from typing import Any

from hooks.contract import RenderOptions, Retention
from worker.text.tokens import utf16_length

from . import hook_json
from .profile import HookCaller, HostEvent, HostProfile, HostRequest, McpFiles, Native, Role, SettingsFiles, Syntax

MOST_CHARS = 10_000
RENDER = RenderOptions(max_chars=9_000)
SUBAGENT_TOOLS = ("Agent", "Task")

EVENTS = (
    HostEvent("UserPromptSubmit", Role.INJECTS, over_http=True),
    HostEvent("SubagentStart", Role.INJECTS, over_http=True),
    HostEvent("PreToolUse", Role.ANNOUNCES, matcher="|".join(SUBAGENT_TOOLS), over_http=True),
    HostEvent("SessionStart", Role.FOLLOWS),
    HostEvent("PreCompact", Role.FOLLOWS, over_http=True),
    HostEvent("PostCompact", Role.FOLLOWS, over_http=True),
    HostEvent("SessionEnd", Role.FOLLOWS, installed=False, over_http=True),
)
INJECTING = tuple(event.name for event in EVENTS if event.role is Role.INJECTS)


def understand(event: Native, caller: HookCaller) -> HostRequest | None:
    """Return the request for an event."""
    match hook_json.event_name(event):
        case "UserPromptSubmit":
            return hook_json.prompted(event, caller, RENDER, "prompt_id")
        case "SubagentStart":
            return hook_json.subagent_started(event, caller, RENDER)
        case "PreToolUse" if event.get("tool_name") in SUBAGENT_TOOLS:
            return hook_json.announced(event, caller)
        case "SessionStart":
            return hook_json.started(event, caller)
        case "PreCompact":
            return hook_json.compacting(event, caller)
        case "PostCompact":
            return hook_json.compacted(event, caller)
        case "SessionEnd":
            return hook_json.ended(event, caller)
        case _:
            return None


def faults(event: Native, output: Any) -> list[str]:
    """Return why Claude Code would reject or truncate an output."""
    found = hook_json.output_faults(event, output, INJECTING)
    if (
        not found
        and "hookSpecificOutput" in output
        and utf16_length(output["hookSpecificOutput"]["additionalContext"]) > MOST_CHARS
    ):
        found.append(f"additionalContext is longer than {MOST_CHARS} characters and would be truncated to a preview")
    return found


def example(session_id: str, message: str) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "prompt_id": session_id,
        "transcript_path": "",
        "cwd": "",
        "permission_mode": "default",
        "hook_event_name": "UserPromptSubmit",
        "prompt": message,
        "source": "user",
    }


PROFILE = HostProfile(
    name="claude-code",
    title="Claude Code",
    retention=Retention.HISTORY,
    render=RENDER,
    limit=f"{MOST_CHARS:,} characters, then a preview",
    events=EVENTS,
    understand=understand,
    answer=hook_json.additional_context,
    sign=hook_json.sign,
    faults=faults,
    example=example,
    transcripts=".claude/projects",
    settings=SettingsFiles(
        user=".claude/settings.json",
        project=".claude/settings.json",
        others=(".claude/settings.local.json",),
        over_http=True,
        plugins=True,
        mcp=McpFiles(user=".claude.json", project=".mcp.json", syntax=Syntax.JSON, over_http=True),
    ),
)
