"""Commands that capture memories from a transcript, and review what waits."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from hooks.contract.capture import CaptureMode, ConversationTurn
from worker.cli.backend import call
from worker.cli.options import Agent, Project, Tenant, User
from worker.cli.output import answer, fail, note, print_json, printed_as_json, say, wants_json
from worker.hosts.transcripts import Transcript, TranscriptFormat, read_transcript
from worker.operations.registry import CAPTURE, CAPTURE_UNDO, PROPOSAL_ACCEPT, PROPOSAL_REJECT, PROPOSALS

CAPTURE_S = 120.0
BATCH = 400
"""Turns that are sent at a time."""

WHY = {
    "known": "known already",
    "secret": "holds a secret",
    "only_once": "meant for one answer only",
    "not_a_fact": "not meant as a fact",
    "waiting": "waits for review already",
    "rejected_before": "was rejected or deleted before",
    "inbox_full": "too many proposals wait; review them first",
    "malformed": "cannot be stored",
    "not_said_by_user": "not said by the user",
    "unsupported": "not what the user's words say",
    "example_name": "holds a name from an example",
    "shown_before": "the session was shown it",
    "over_limit": "more than three things at once",
    "bad_target": "what it replaces was changed meanwhile",
}


def capture(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="Transcript of Claude Code, Codex, Gemini CLI or Cursor, or plain lines.")
    ],
    mode: Annotated[
        CaptureMode | None,
        typer.Option(help="auto stores, review proposes (default: the agent's setting, else review)."),
    ] = None,
    kind: Annotated[
        TranscriptFormat | None, typer.Option("--format", help="Format of the transcript (default: recognized).")
    ] = None,
    session: Annotated[str | None, typer.Option(help="Session id (default: that of the transcript).")] = None,
    user: User = None,
    project: Project = None,
    agent: Agent = "main",
    tenant: Tenant = "default",
) -> None:
    """Find memories in a transcript. Turns that were captured before are skipped, so it is safe to run again."""
    transcript = _read(file, kind)
    source = {
        "session_id": session or transcript.session_id or file.stem,
        "host": transcript.format.value,
        "tenant": tenant,
        "user": user,
        "project": project,
        "agent_id": agent,
    }
    done = _sent(context, source, transcript.turns, mode)
    if not printed_as_json(done):
        _show(done, transcript)


def _read(file: Path, kind: TranscriptFormat | None) -> Transcript:
    try:
        content = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        fail(f"{file}: {error.strerror or error}")
    found = read_transcript(content, datetime.now().astimezone().tzinfo, kind)
    if found is None:
        fail(f"{file} is no transcript that is known; name its format with --format")
    if not found.turns:
        fail(f"{file}: {found.lines} lines were read, but no turn was found; is its format {found.format.value}?")
    return found


def _sent(
    context: typer.Context, source: Mapping[str, Any], turns: tuple[ConversationTurn, ...], mode: CaptureMode | None
) -> dict[str, Any]:
    """Send the turns in batches, and return the results as one."""
    total: dict[str, Any] = {"mode": "", "new_turns": 0, "waiting": False}
    total |= {"captures": [], "changes": [], "left_out": []}
    for start in range(0, len(turns), BATCH):
        batch = [turn.model_dump(mode="json") for turn in turns[start : start + BATCH]]
        payload = {**source, "turns": batch, "mode": mode.value if mode else None}
        done = call(context, CAPTURE, payload, budget=CAPTURE_S)
        if mode is None and done["mode"] == CaptureMode.OFF:
            mode = CaptureMode.REVIEW
            done = call(context, CAPTURE, {**payload, "mode": mode.value}, budget=CAPTURE_S)
        total["mode"] = done["mode"]
        total["new_turns"] += done["new_turns"]
        total["waiting"] = total["waiting"] or done["waiting"]
        for name in ("captures", "changes", "left_out"):
            total[name] += done[name]
    return total


def _show(done: Mapping[str, Any], transcript: Transcript) -> None:
    read = f"{len(transcript.turns)} turns, {done['new_turns']} of them new from the user"
    for change in done["changes"]:
        say(f"{change['stored']} {change['id']}: {change['text']}")
    for one in done["left_out"]:
        note(f"left out, {WHY.get(one['reason'], one['reason'])}" + (f": {one['text']}" if one["text"] else ""))
    say(read if done["changes"] or done["left_out"] else f"nothing that was asked to be remembered in {read}")
    if done["waiting"]:
        say("the model reads the rest in the background; `meeseeks status` shows what waits")
    stored = [change["capture"] for change in done["changes"] if change["stored"] == "created"]
    for key in dict.fromkeys(stored):
        say(f"undo with: meeseeks review --undo {key}")
    if done["waiting"] or any(change["stored"] == "proposed" for change in done["changes"]):
        say("decide with: meeseeks review")


def review(
    context: typer.Context,
    accept: Annotated[list[str] | None, typer.Option(help="Id of a proposal to store; repeat for several.")] = None,
    reject: Annotated[
        list[str] | None, typer.Option(help="Id of a proposal to reject for good; repeat for several.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Other text for the proposal that is accepted.")] = None,
    undo: Annotated[str | None, typer.Option(help="Id of a capture to undo.")] = None,
    user: User = None,
    tenant: Tenant = "default",
) -> None:
    """Show the proposals that wait with the words they rest on, and accept, edit or reject them."""
    if text is not None and len(accept or []) != 1:
        fail("--text needs exactly one --accept")
    if undo is not None:
        undone = call(context, CAPTURE_UNDO, {"tenant": tenant, "id": undo})
        answer(undone, f"undone: {undo}, with {len(undone['changes'])} memories and proposals")
    if accept or reject:
        _decide(context, tenant, accept or [], reject or [], text)
    elif undo is None:
        _list(call(context, PROPOSALS, {"tenant": tenant, "user": user}))


def _decide(context: typer.Context, tenant: str, accept: list[str], reject: list[str], text: str | None) -> None:
    done: dict[str, Any] = {"accepted": [], "rejected": []}
    for key in accept:
        stored = call(context, PROPOSAL_ACCEPT, {"tenant": tenant, "id": key, "text": text})
        done["accepted"].append({"proposal": key, **stored})
    for key in reject:
        call(context, PROPOSAL_REJECT, {"tenant": tenant, "id": key})
        done["rejected"].append(key)
    if wants_json():
        print_json(done)
        return
    for one in done["accepted"]:
        say(f"{one['stored']}: {one['id']}")
    for key in done["rejected"]:
        say(f"rejected: {key}")


def _list(found: Mapping[str, Any]) -> None:
    if printed_as_json(found):
        return
    if not found["proposals"]:
        say("nothing waits for review")
        return
    for one in found["proposals"]:
        change = one["change"]
        evidence = change["memory"]["evidence"] or {}
        replaced = f" (replaces {change['target']})" if change["target"] else ""
        say(f"{one['id']}  {change['memory']['content']}{replaced}")
        if one["replaces"] is not None:
            say(f"    replaces: {one['replaces']}")
        if change["known"]:
            continue
        say(f"    said {(evidence.get('said_at') or '')[:10] or 'at an unknown time'}: {evidence.get('text', '')}")
        for other in change["conflicts"]:
            say(f"    may contradict {other}")
    say("decide with: meeseeks review --accept ID, --reject ID, or --accept ID --text '...'")
