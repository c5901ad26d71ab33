"""Read transcripts of hosts: what people typed and what agents answered, and nothing else. Pure.

A transcript holds much that is recorded as the user's but was typed by nobody: results of tools, summaries, notices,
prompts of subagents. Only what is known to be typed counts.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from hooks.contract.capture import ConversationTurn

from .fields import text

Record = Mapping[str, Any]

_WRAPPED = re.compile(
    r"\s*<(?!user_query>|timestamp>)[a-z][a-z_-]{2,40}[ >]|\s*\[Request interrupted|\s*Caveat: The messages below"
)
"""The beginning of a text that a program wrote into a user's turn."""

_QUERY = re.compile(r"<user_query>(.*?)</user_query>", re.DOTALL)
_TIMESTAMP = re.compile(r"<timestamp>([^<]{1,100})</timestamp>")


class TranscriptFormat(StrEnum):
    """Whose transcript it is; `plain` has lines with `role`, `text` or `content`, and optionally `at` and `id`."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    GEMINI = "gemini"
    CURSOR = "cursor"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Transcript:
    """The turns of a session, oldest first. `lines` counts the lines that were read, `faulty` those without JSON."""

    format: TranscriptFormat
    turns: tuple[ConversationTurn, ...]
    session_id: str | None = None
    folder: str | None = None
    lines: int = 0
    faulty: int = 0


def read_transcript(content: str, zone: tzinfo | None, known: TranscriptFormat | None = None) -> Transcript | None:
    """Return what a transcript says, with times in `zone`; `None` if its format is not known."""
    records, faulty = _records(content)
    found = known or _format_of(records)
    if found is None:
        return None
    turns = tuple(_turns(_READERS[found](records), zone))
    return Transcript(found, turns, _session(records), _folder(records), len(records) + faulty, faulty)


def _records(content: str) -> tuple[list[Record], int]:
    """Return the JSON objects of the lines, or of the whole, and the number of lines that are none."""
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, list):
        return [one for one in whole if isinstance(one, dict)], 0
    if isinstance(whole, dict):
        listed = whole.get("messages")
        inner = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        return [whole, *inner], 0
    found: list[Record] = []
    faulty = 0
    for line in content.splitlines():
        if line.strip():
            record = _object(line)
            faulty += record is None
            found += [record] if record is not None else []
    return found, faulty


def _object(line: str) -> Record | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _format_of(records: Iterable[Record]) -> TranscriptFormat | None:
    for record in records:
        if "payload" in record and record.get("type") in ("session_meta", "response_item", "event_msg", "turn_context"):
            return TranscriptFormat.CODEX
        if isinstance(record.get("message"), dict):
            return TranscriptFormat.CLAUDE_CODE if "type" in record else TranscriptFormat.CURSOR
        if record.get("type") in ("user", "gemini") and "content" in record:
            return TranscriptFormat.GEMINI
        if "role" in record and ("text" in record or "content" in record):
            return TranscriptFormat.PLAIN
    return None


@dataclass(frozen=True, slots=True)
class _Said:
    role: str
    text: str
    id: str | None = None
    at: str | None = None


def _turns(said: Iterable[_Said], zone: tzinfo | None) -> Iterator[ConversationTurn]:
    for one in said:
        if one.text.strip():
            try:
                yield ConversationTurn(id=one.id or None, role=one.role, text=one.text, at=_moment(one.at, zone))
            except ValidationError:
                continue


def _moment(at: str | None, zone: tzinfo | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(at) if at else None
        return found if found is None or found.tzinfo is None else found.astimezone(zone)
    except (ValueError, OverflowError):  # no time, or one outside of the years 1 to 9999
        return None


def _claude_code(records: list[Record]) -> Iterator[_Said]:
    rewound = _rewound(records)
    for record in records:
        role, content, key = record.get("type"), _content(record), text(record, "uuid")
        if role not in ("user", "assistant") or record.get("isSidechain") or key in rewound:
            continue
        if role == "user" and not _is_typed(record, content):
            continue
        yield _Said(str(role), _texts(content), key, text(record, "timestamp"))


def _is_typed(record: Record, content: Any) -> bool:
    """Return whether a person typed this record of type user."""
    flags = (
        "isMeta",
        "isCompactSummary",
        "isVisibleInTranscriptOnly",
        "toolUseResult",
        "sourceToolUseID",
        "isApiErrorMessage",
    )
    origin = record.get("origin")
    kind = origin.get("kind") if isinstance(origin, dict) else origin
    if any(record.get(flag) for flag in flags) or kind not in (None, "human", "user"):
        return False
    if isinstance(content, list) and any(
        part.get("type") == "tool_result" for part in content if isinstance(part, dict)
    ):
        return False
    return not _WRAPPED.match(_texts(content))


def _rewound(records: list[Record]) -> set[str]:
    """Return the ids of records on branches that were left: of prompts after the same record, the last one counts."""
    children: dict[str, list[str]] = {}
    prompts: dict[str, list[str]] = {}
    for record in records:
        parent, key = record.get("parentUuid"), record.get("uuid")
        if isinstance(parent, str) and isinstance(key, str):
            children.setdefault(parent, []).append(key)
            own = record.get("type") == "user" and not record.get("isSidechain")
            if own and _is_typed(record, _content(record)):
                prompts.setdefault(parent, []).append(key)
    left = [key for keys in prompts.values() for key in keys[:-1]]
    gone: set[str] = set()
    while left:
        key = left.pop()
        if key not in gone:
            gone.add(key)
            left += children.get(key, ())
    return gone


def _codex(records: list[Record]) -> Iterator[_Said]:
    """Read the messages as events; a prompt is written a second time as an item, with what the host added."""
    events = [one for one in records if one.get("type") == "event_msg" and isinstance(one.get("payload"), dict)]
    roles = {"user_message": "user", "agent_message": "assistant"}
    if any(one["payload"].get("type") == "user_message" for one in events):
        for one in events:
            role = roles.get(str(one["payload"].get("type")))
            if role is not None and not _WRAPPED.match(text(one["payload"], "message")):
                yield _Said(role, text(one["payload"], "message"), None, text(one, "timestamp"))
        return
    for one in records:
        payload = one.get("payload")
        if one.get("type") == "response_item" and isinstance(payload, dict) and payload.get("type") == "message":
            said = _texts(payload.get("content"))
            if payload.get("role") in ("user", "assistant") and not _WRAPPED.match(said):
                yield _Said(payload["role"], said, None, text(one, "timestamp"))


def _gemini(records: list[Record]) -> Iterator[_Said]:
    """Read the messages; one that is written again replaces the former, and a rewind takes back what followed."""
    kept: dict[str, _Said] = {}
    for record in records:
        back = record.get("$rewindTo")
        if isinstance(back, str):
            ids = list(kept)
            for key in ids[ids.index(back) if back in ids else len(ids) :]:
                del kept[key]
            continue
        role = {"user": "user", "gemini": "assistant"}.get(str(record.get("type")))
        said = _texts(record.get("content"))
        if role is not None and not (role == "user" and _WRAPPED.match(said)):
            key = text(record, "id") or str(len(kept))
            kept[key] = _Said(role, said, key, text(record, "timestamp"))
    yield from kept.values()


def _cursor(records: list[Record]) -> Iterator[_Said]:
    for record in records:
        said = _texts(_content(record))
        if record.get("role") == "assistant":
            yield _Said("assistant", said)
        elif record.get("role") == "user" and not _WRAPPED.match(said):
            at, query = _TIMESTAMP.search(said), _QUERY.search(said)
            bare = query[1].strip() if query else _TIMESTAMP.sub("", said)
            yield _Said("user", bare, None, at[1].strip() if at else None)


def _plain(records: list[Record]) -> Iterator[_Said]:
    for record in records:
        said = text(record, "text") or _texts(record.get("content"))
        at = text(record, "at") or text(record, "timestamp")
        yield _Said(text(record, "role"), said, text(record, "id") or text(record, "uuid"), at)


def _content(record: Record) -> Any:
    """Return the content of a record's message, `None` without one."""
    message = record.get("message")
    return message.get("content") if isinstance(message, dict) else None


def _texts(content: Any) -> str:
    """Return the text of a content: a text, or the parts of type text of a list."""
    if isinstance(content, str):
        return content
    parts = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    return "\n\n".join(
        text(one, "text") for one in parts if one.get("type", "text") in ("text", "input_text", "output_text")
    )


def _session(records: Iterable[Record]) -> str | None:
    for record in records:
        payload = record.get("payload")
        inner = payload if isinstance(payload, dict) and record.get("type") == "session_meta" else record
        for key in ("sessionId", "session_id", "conversation_id", "id"):
            if isinstance(inner.get(key), str) and (key != "id" or inner is payload):
                return str(inner[key])
    return None


def _folder(records: Iterable[Record]) -> str | None:
    for record in records:
        payload = record.get("payload")
        found = record.get("cwd") or (payload.get("cwd") if isinstance(payload, dict) else None)
        if isinstance(found, str) and found:
            return found
    return None


_READERS: Mapping[TranscriptFormat, Callable[[list[Record]], Iterator[_Said]]] = {
    TranscriptFormat.CLAUDE_CODE: _claude_code,
    TranscriptFormat.CODEX: _codex,
    TranscriptFormat.GEMINI: _gemini,
    TranscriptFormat.CURSOR: _cursor,
    TranscriptFormat.PLAIN: _plain,
}
