"""Transcripts of four hosts: what people typed, and none of what programs wrote in their name."""

import json
from datetime import UTC, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import ROOT
from worker.hosts.transcripts import Transcript, TranscriptFormat, read_transcript

DATA = ROOT / "tests" / "data" / "transcripts"


def lines(*records: dict[str, Any]) -> str:
    return "\n".join(json.dumps(record) for record in records)


def read(content: str) -> Transcript:
    found = read_transcript(content, UTC)
    assert found is not None
    return found


def said(content: str, role: str = "user") -> list[str]:
    return [turn.text for turn in read(content).turns if turn.role == role]


def claude(text: Any, key: str, parent: str | None = None, kind: str = "user", **fields: Any) -> dict[str, Any]:
    message = {"role": kind, "content": text}
    at = "2026-03-04T09:00:00.000Z"
    return {"type": kind, "message": message, "uuid": key, "parentUuid": parent, "timestamp": at, **fields}


@pytest.mark.parametrize("name", list(TranscriptFormat))
def test_a_recorded_session_is_read(name: TranscriptFormat) -> None:
    found = read((DATA / f"{name.value}.jsonl").read_text(encoding="utf-8"))
    assert found.format is name
    assert [turn.text for turn in found.turns if turn.role == "user"] == [
        "Fix the failing test in the parser",
        "Remember that we release on Thursdays",
    ]
    assert any("parser" in turn.text for turn in found.turns if turn.role == "assistant")
    assert found.faulty == 0


@pytest.mark.parametrize(
    "record",
    [
        claude([{"type": "tool_result", "content": "remember"}], "b"),
        claude("remember", "b", isMeta=True),
        claude("remember", "b", isCompactSummary=True),
        claude("remember", "b", isSidechain=True),
        claude("remember", "b", origin={"kind": "task-notification"}),
        claude("<task-notification>remember</task-notification>", "b"),
        claude("<command-name>/clear</command-name>", "b"),
        claude("[Request interrupted by user]", "b"),
    ],
)
def test_what_nobody_typed_is_not_read(record: dict[str, Any]) -> None:
    assert said(lines(claude("typed", "a", origin={"kind": "human"}), record)) == ["typed"]


def test_a_branch_that_was_left_is_not_read() -> None:
    records = (
        claude("one", "a"),
        claude("first answer", "b", "a", "assistant"),
        claude("wrong way", "c", "b"),
        claude("answer to it", "d", "c", "assistant"),
        claude("right way", "e", "b"),
    )
    assert said(lines(*records)) == ["one", "right way"]
    assert said(lines(*records), "assistant") == ["first answer"]


def test_a_rewind_takes_back_what_followed() -> None:
    kept = {"id": "1", "type": "user", "content": "one", "timestamp": "2026-03-04T09:00:00Z"}
    answer = {"id": "2", "type": "gemini", "content": "draft"}
    later = {"id": "3", "type": "user", "content": "gone"}
    assert said(lines(kept, answer, {**answer, "content": "final"}, later, {"$rewindTo": "3"})) == ["one"]
    assert said(lines(kept, answer, {**answer, "content": "final"}), "assistant") == ["final"]


def test_a_cut_last_line_costs_only_itself() -> None:
    found = read(lines(claude("one", "a")) + '\n{"type": "user", "mess')
    assert ([turn.text for turn in found.turns], found.faulty) == (["one"], 1)


def test_without_a_time_there_is_none() -> None:
    record = {"role": "user", "message": {"content": [{"type": "text", "text": "<user_query>hi there</user_query>"}]}}
    (turn,) = read(lines(record)).turns
    assert (turn.text, turn.at) == ("hi there", None)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("0001-01-01T00:00:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("type", "text", "content")), inner),
    max_leaves=6,
)
FIELDS = (
    *("type", "message", "uuid", "parentUuid", "timestamp", "origin", "payload", "content", "role", "id", "at"),
    *("sessionId", "cwd", "$rewindTo"),
)
KINDS = st.sampled_from(("user", "assistant", "gemini", "event_msg", "response_item", "session_meta"))


@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), ANYTHING | KINDS), max_size=4), st.sampled_from(TranscriptFormat)
)
def test_records_of_any_form_are_read_or_left_out(records: list[dict[str, Any]], kind: TranscriptFormat) -> None:
    west = timezone(-timedelta(hours=5))
    assert read_transcript(lines(*records), west, kind) is not None
    read_transcript(lines(*records), west)


@pytest.mark.parametrize(
    "record",
    [
        claude("broken", "b") | {"message": "broken"},
        claude("broken", "b") | {"message": ["broken"]},
        {"type": "user", "message": 7, "uuid": ["b"], "parentUuid": "a"},
    ],
)
def test_a_record_of_an_unknown_form_costs_only_itself(record: dict[str, Any]) -> None:
    for kind in (TranscriptFormat.CLAUDE_CODE, TranscriptFormat.CURSOR):
        kept = claude("kept", "a") | {"role": "user"}
        found = read_transcript(lines(kept, record | {"role": "user"}), UTC, kind)
        assert found is not None
        assert [turn.text for turn in found.turns] == ["kept"]


def test_an_unusual_id_or_time_costs_no_turn() -> None:
    records = (claude("one", "a") | {"uuid": ["a"]}, claude("two", "b") | {"timestamp": "0001-01-01T00:00:00Z"})
    found = read_transcript(lines(*records), timezone(-timedelta(hours=5)))
    assert found is not None
    assert [(turn.text, turn.at) for turn in found.turns][1] == ("two", None)


@pytest.mark.parametrize("content", ["", "not a transcript", "{}", "[1, 2]", '{"memory": "x"}'])
def test_other_files_are_not_read(content: str) -> None:
    assert read_transcript(content, UTC) is None
