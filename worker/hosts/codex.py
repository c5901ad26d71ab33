"""Codex CLI (0.171): hooks in `hooks.json`, as commands.

An unknown key in the output makes the hook fail. Codex moves texts of more than 2,500 tokens, of four bytes each, to a
file and shows a preview.
"""

from typing import Any

from hooks.contract import RenderOptions, Retention

from . import hook_json
from .profile import HookCaller, HostEvent, HostProfile, HostRequest, McpFiles, Native, Role, SettingsFiles, Syntax

MOST_TOKENS = 2_500
BYTES_PER_TOKEN = 4
RENDER = RenderOptions(max_chars=9_000, max_tokens=2_400)

EVENTS = (
    HostEvent("UserPromptSubmit", Role.INJECTS),
    HostEvent("SessionStart", Role.FOLLOWS),
    HostEvent("PreCompact", Role.FOLLOWS),
    HostEvent("PostCompact", Role.FOLLOWS),
)
INJECTING = tuple(event.name for event in EVENTS if event.role is Role.INJECTS)


def understand(event: Native, caller: HookCaller) -> HostRequest | None:
    """Return the request for an event; starting subagents are ignored, because the event does not include the task."""
    match hook_json.event_name(event):
        case "UserPromptSubmit":
            return hook_json.prompted(event, caller, RENDER, "turn_id")
        case "SessionStart":
            return hook_json.started(event, caller)
        case "PreCompact":
            return hook_json.compacting(event, caller)
        case "PostCompact":
            return hook_json.compacted(event, caller)
        case _:
            return None


def faults(event: Native, output: Any) -> list[str]:
    """Return why Codex would reject an output or move it to a file."""
    found = hook_json.output_faults(event, output, INJECTING)
    if (
        not found
        and "hookSpecificOutput" in output
        and tokens(output["hookSpecificOutput"]["additionalContext"]) > MOST_TOKENS
    ):
        found.append(f"additionalContext has more than {MOST_TOKENS} tokens and would be moved to a file")
    return found


def tokens(text: str) -> int:
    """Estimate tokens as Codex does: four bytes of UTF-8 each, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def example(session_id: str, message: str) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "turn_id": session_id,
        "transcript_path": None,
        "cwd": "",
        "hook_event_name": "UserPromptSubmit",
        "model": "",
        "permission_mode": "default",
        "prompt": message,
    }


PROFILE = HostProfile(
    name="codex",
    title="Codex CLI",
    retention=Retention.HISTORY,
    render=RENDER,
    limit=f"{MOST_TOKENS:,} tokens of {BYTES_PER_TOKEN} bytes, then a file",
    events=EVENTS,
    understand=understand,
    answer=hook_json.additional_context,
    sign=hook_json.sign,
    faults=faults,
    example=example,
    transcripts=".codex/sessions",
    settings=SettingsFiles(
        user=".codex/hooks.json",
        project=".codex/hooks.json",
        login_shell=True,
        note="Codex must be allowed once to run new or changed hooks: open it and approve them under /hooks.",
        mcp=McpFiles(user=".codex/config.toml", project=".codex/config.toml", syntax=Syntax.TOML),
    ),
)
