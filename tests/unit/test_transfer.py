"""JSON Lines in and out."""

import json
from datetime import UTC, datetime

import pytest

from worker.errors import MemoryRejected
from worker.models import Memory
from worker.transfer import Rejected, memory_from, read_lines, to_line

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_lines_become_memories_and_bad_ones_say_why() -> None:
    lines = ['{"id":"a","content":"x"}', "", "not json", "[1]", '{"content":" "}', '{"content":"y","colour":"red"}']
    entries = dict(read_lines(lines, NOW))
    assert list(entries) == [1, 3, 4, 5, 6]
    assert isinstance(entries[1], Memory)
    reasons = [entry.reason for entry in entries.values() if isinstance(entry, Rejected)]
    assert "not JSON" in reasons[0]
    assert "expected a JSON object, found list" in reasons[1]
    assert "blank" in reasons[2]
    assert reasons[3].startswith("colour")


def test_what_is_written_is_read_back_the_same() -> None:
    memory = memory_from(
        {
            "id": "m1",
            "text": "Relay 4",
            "type": "decision",
            "entities": ["pump"],
            "relations": [{"kind": "updates", "target": "m0"}],
            "scope": {"user": "u1", "channel": "#ops"},
            "created_at": 1770112800000,
        },
        NOW,
    )
    assert memory.channel == "#ops"
    assert memory_from(json.loads(to_line(memory)), NOW) == memory


def test_same_content_in_the_same_scope_gets_the_same_id() -> None:
    first, second = (memory_from({"content": "x"}, NOW) for _ in range(2))
    other = memory_from({"content": "x", "scope": {"user": "u1"}}, NOW)
    assert first.id == second.id != other.id
    assert first.created_at == NOW


def test_unpaired_surrogates_are_replaced() -> None:
    assert memory_from({"content": "bay \udc88 2"}, NOW).content == "bay \ufffd 2"


def test_endless_content_is_refused() -> None:
    with pytest.raises(MemoryRejected, match="longer than"):
        memory_from({"content": "x" * 30_000}, NOW)
