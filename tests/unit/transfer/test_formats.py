"""Every format that is read: what becomes of it, what is refused and why, and that nothing big is held."""

import json
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory, MemoryType
from worker.transfer.entries import LeftOut, Noted, Rejected, Remark
from worker.transfer.formats import Format, Source, sources
from worker.transfer.markdown_export import markdown_item, type_heading

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def read(path: Path, content: str | bytes, wanted: Format | None = None) -> list[Memory | Remark]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(Source(path, path.name, wanted).entries(now=NOW))


def taken(entries: list[Memory | Remark]) -> list[Memory]:
    return [entry for entry in entries if isinstance(entry, Memory)]


def refused(entries: list[Memory | Remark]) -> list[Rejected]:
    return [entry for entry in entries if isinstance(entry, Rejected)]


def remarks(entries: list[Memory | Remark]) -> list[Remark]:
    return [entry for entry in entries if isinstance(entry, LeftOut | Noted)]


def contents(entries: list[Memory | Remark]) -> list[str]:
    return [memory.content for memory in taken(entries)]


MEM0: dict[str, Any] = {
    "id": "3f1c",
    "memory": "Allergic to peanuts",
    "hash": "abc",
    "user_id": "dev",
    "agent_id": None,
    "created_at": "2026-01-05T10:00:00-08:00",
    "updated_at": None,
    "metadata": {"type": "preference", "importance": 0.9, "mood": "x"},
    "categories": ["health", "food"],
}


@pytest.mark.parametrize("shape", ["results", "memories", "array", "lines"])
def test_an_export_of_mem0_in_every_shape(tmp_path: Path, shape: str) -> None:
    text = json.dumps([MEM0, MEM0])
    if shape == "lines":
        text = f"{json.dumps(MEM0)}\n{json.dumps(MEM0)}\n"
    elif shape != "array":
        text = json.dumps({"count": 2, "next": None, shape: [MEM0, MEM0], "relations": [{"source": "x"}]}, indent=2)
    first, second = taken(read(tmp_path / "export.json", text))
    assert first == second
    assert (first.id, first.content, first.scope.user, first.type) == (
        "3f1c",
        "Allergic to peanuts",
        "dev",
        MemoryType.PREFERENCE,
    )
    assert first.created_at == datetime(2026, 1, 5, 18, tzinfo=UTC)
    assert (first.importance, first.entities, first.source) == (0.9, ("health", "food"), "mem0")


def test_a_json_array_tells_the_line_of_each_fault_and_goes_on(tmp_path: Path) -> None:
    text = '[\n {"content": "one"},\n 7,\n {"content": ""},\n {\n"content": "two"}\n]\n'
    entries = read(tmp_path / "a.json", text)
    assert contents(entries) == ["one", "two"]
    assert [(entry.line, entry.reason.split(":")[0]) for entry in refused(entries)] == [
        (3, "not a JSON object"),
        (4, "content"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('[{"content": "one"},\n{"content": tw', 2, "not valid JSON"),
        ('[{"content": "one"}\n{"content": "two"}]', 2, "expected ','"),
        ('[{"content": "one"}] x', 1, "unexpected text"),
        ('[{"content": "one"},', 1, "not valid JSON"),
    ],
)
def test_a_broken_array_gives_what_was_before_and_says_that_the_rest_is_missing(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    entries = read(tmp_path / "a.json", text)
    assert contents(entries) == ["one"]
    (fault,) = refused(entries)
    assert fault.line == line
    assert reason in fault.reason
    assert "the rest of the file was skipped" in fault.reason


def test_an_object_without_a_list_says_what_is_missing(tmp_path: Path) -> None:
    (fault,) = refused(read(tmp_path / "a.json", '{"colour": "red"}'))
    assert "results, memories" in fault.reason


NOTES = """---
tags: [harbour, "#cranes"]
date: 2026-01-03
user: mara
type: meeting
---
# Harbour notes

The harbour master is Imre.
He works nights.

## Decisions
- Barge 4 is sold (2026-02-01)
* 2026-02-03: Crane 2 is kept
  - until spring
  - with a new motor

### Berths
1. Berth 9 is for tugs
2) Run the pump check:

```sh
pump --check
```

## To do
- [ ] Call the diver
- [x] Paint the mast

<!-- hidden
not a memory -->
***
2026-02-09 log
--------------
- Fog all day
"""


def test_notes_give_items_and_paragraphs_with_topic_type_date_and_owner(tmp_path: Path) -> None:
    entries = read(tmp_path / "notes.md", NOTES)
    memories = taken(entries)
    assert [(memory.context, memory.content) for memory in memories] == [
        ("Harbour notes", "The harbour master is Imre.\nHe works nights."),
        ("Harbour notes", "Barge 4 is sold"),
        ("Harbour notes", "Crane 2 is kept\n  - until spring\n  - with a new motor"),
        ("Decisions / Berths", "Berth 9 is for tugs"),
        ("Decisions / Berths", "Run the pump check:\n```sh\npump --check\n```"),
        ("Harbour notes", "Call the diver"),
        ("Harbour notes", "Done: Paint the mast"),
        ("Harbour notes", "Fog all day"),
    ]
    kinds = [memory.type.value for memory in memories]
    assert kinds == ["fact", "decision", "decision", "fact", "fact", "todo", "event", "fact"]
    assert [type(remark).__name__ for remark in remarks(entries)] == ["Noted", "LeftOut"]
    days = [f"{memory.created_at:%m-%d}" for memory in memories]
    assert days == ["01-03", "02-01", "02-03", "01-03", "01-03", "01-03", "01-03", "02-09"]
    assert {memory.scope.user for memory in memories} == {"mara"}
    assert {memory.entities for memory in memories} == {("harbour", "cranes")}
    assert {memory.source for memory in memories} == {"notes.md"}


def test_an_injected_block_in_notes_is_refused_as_a_whole(tmp_path: Path) -> None:
    text = "- Tea at four\n\n<memory_context>\nNote\n- Barge 4 is sold\n\n- more\n</memory_context>\n\n- Fog all day\n"
    entries = read(tmp_path / "chat.md", text)
    assert contents(entries) == ["Tea at four", "Fog all day"]
    assert [(fault.line, "injected block" in fault.reason) for fault in refused(entries)] == [(3, True)]
    unfinished = read(tmp_path / "cut.md", text.replace("</memory_context>", ""))
    assert contents(unfinished) == ["Tea at four"]
    assert len(refused(unfinished)) == 1


@pytest.mark.parametrize("front", ["---\na: [\n---\n", "---\n- a\n---\n"])
def test_front_matter_that_cannot_be_read_is_said_and_the_notes_are_taken(tmp_path: Path, front: str) -> None:
    entries = read(tmp_path / "n.md", front + "- Fog all day\n")
    assert contents(entries) == ["Fog all day"]
    assert refused(entries)[0].reason.startswith("front matter")


CLAUDE = """# Harbour app

See @docs/style.md for the style.
@~/.claude/more.md

## Commands
- Build with `make all`
- [Style](style.md) — how we write
"""


def test_an_instruction_file_gives_preferences_without_pointers(tmp_path: Path) -> None:
    entries = read(tmp_path / "CLAUDE.md", CLAUDE)
    memories = taken(entries)
    assert [(memory.context, memory.content) for memory in memories] == [
        ("Harbour app", "See @docs/style.md for the style."),
        ("Commands", "Build with `make all`"),
    ]
    assert [remark.line for remark in remarks(entries)] == [3, 8]
    assert {memory.type for memory in memories} == {MemoryType.PREFERENCE}


MEMORY_FILE = """---
name: Real database in tests
description: Never mock the database
type: feedback
---

Integration tests use a real database.

**Why:** mocks passed while the migration failed.
"""


def test_a_memory_file_is_one_memory_unless_it_is_long(tmp_path: Path) -> None:
    (memory,) = taken(read(tmp_path / "feedback_testing.md", MEMORY_FILE))
    assert memory.type is MemoryType.PREFERENCE
    assert memory.content == (
        "Integration tests use a real database.\n**Why:** mocks passed while the migration failed."
    )
    long = MEMORY_FILE + "".join(f"\n- point {n} {'x' * 100}\n" for n in range(12))
    assert len(taken(read(tmp_path / "feedback_long.md", long))) == 14
    user = MEMORY_FILE.replace("feedback", "user")
    assert taken(read(tmp_path / "user.md", user))[0].type is MemoryType.IDENTITY


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_tables_with_every_delimiter_a_mark_and_other_names(tmp_path: Path, delimiter: str) -> None:
    rows = [
        ["Date", "Note", "Tags", "User ID", "Colour"],
        ["2026-01-03", '"Barge, 4; is\tsold|\nto Imre"', "a", "mara", "red"],
    ]
    text = "\ufeff" + "\r\n".join(delimiter.join(row) for row in rows) + "\r\n"
    (memory,) = taken(read(tmp_path / "t.csv", text))
    assert memory.content == "Barge, 4; is\tsold|\nto Imre"
    assert (memory.scope.user, memory.entities) == ("mara", ("a",))
    assert memory.created_at == datetime(2026, 1, 3, tzinfo=UTC)


def test_rows_that_cannot_be_taken_say_their_line(tmp_path: Path) -> None:
    text = 'id,content,type\n1,"two\nlines",fact\n2,,fact\n3,x,colour\n\n4,y,Todo\n'
    entries = read(tmp_path / "t.csv", text)
    assert contents(entries) == ["two\nlines", "x", "y"]
    assert [fault.line for fault in refused(entries)] == [4]
    assert [(note.line, note.reason) for note in remarks(entries)] == [(5, "type 'colour': unknown; stored as fact")]
    (fault,) = refused(read(tmp_path / "u.csv", "a,b\n1,2\n"))
    assert "needs a column" in fault.reason


def test_a_quote_that_is_never_closed_costs_no_memory(tmp_path: Path) -> None:
    text = 'id,content\n1,"open\n' + f"2,{'x' * 20}\n" * 7_000
    entries = read(tmp_path / "t.csv", text)
    assert [(fault.line, "unclosed quote" in fault.reason) for fault in refused(entries)] == [(2, True)]
    assert len(taken(entries)) == 7_000


@pytest.mark.parametrize("name", ["a.jsonl", "a.md", "a.csv", "a.json"])
def test_bytes_that_are_not_utf8_are_refused_and_the_rest_is_taken(tmp_path: Path, name: str) -> None:
    good, bad = b"Caf\xc3\xa9", b"Caf\xe9"
    texts = {
        "a.jsonl": b'{"content": "%s"}\n{"content": "%s"}\n',
        "a.md": b"- %s\n- %s\n",
        "a.csv": b"content\n%s\n%s\n",
        "a.json": b'[{"content": "%s"}, {"content": "%s"}]',
    }
    entries = read(tmp_path / name, texts[name] % (good, bad))
    assert contents(entries) == ["Café"]
    assert ["UTF-8" in fault.reason for fault in refused(entries)] == [True]


def test_utf16_with_a_mark_is_read(tmp_path: Path) -> None:
    assert contents(read(tmp_path / "a.csv", "content\nCafé\n".encode("utf-16"))) == ["Café"]


def test_the_format_is_told_by_the_name_or_by_what_is_inside(tmp_path: Path) -> None:
    def told(name: str, text: str) -> Format:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return Source(tmp_path / name, name).format()

    assert told("a.jsonl", "") is Format.JSONL
    assert told("a.json", ' \n{"content":"x"}\n') is Format.JSONL
    assert told("b.json", '{"results":\n[]}') is Format.JSON
    assert told("c", '[{"content":"x"}]') is Format.JSON
    assert told("d", "id;content\n1;x\n") is Format.CSV
    assert told("CLAUDE.md", "- x") is Format.CLAUDE
    assert told("style.mdc", "- x") is Format.CLAUDE
    assert told("notes.txt", "x") is Format.TEXT
    assert told("notes.MD", "- x") is Format.MARKDOWN
    with pytest.raises(MemoryRejected, match="--format"):
        told("e", "hello there\n")


def test_a_folder_gives_its_files_once_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.md", "a/x.jsonl", ".git/y.md", "a/.z.md", "a/picture.png", "c.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    found = sources([tmp_path, tmp_path / "b.md"])
    assert [source.name for source in found.files] == ["b.md", "c.csv", "a/x.jsonl"]
    assert [remark.reason for _, remark in found.left_out] == ["files of other kinds are not read: 1 .png"]
    with pytest.raises(OSError, match="missing"):
        sources([tmp_path / "missing"])


def test_notes_that_were_exported_are_read_back_with_text_type_and_day(tmp_path: Path) -> None:
    day = datetime(2026, 1, 3, tzinfo=UTC)
    memories = [
        Memory(id=str(number), type=kind, content=f"Barge {number} is sold\nto Imre", created_at=day)
        for number, kind in enumerate(MemoryType)
    ]
    text = "".join(type_heading(memory.type) + markdown_item(memory) + "\n" for memory in memories)
    assert read(tmp_path / "notes.md", text) == memories


@pytest.mark.parametrize("name", ["big.jsonl", "big.json", "big.md", "big.csv"])
def test_a_big_file_is_read_in_pieces(tmp_path: Path, name: str) -> None:
    text = "Barge four was sold to the harbour master " * 16
    lines = {
        "big.jsonl": ("", json.dumps({"content": text}) + "\n", ""),
        "big.json": ("[\n", json.dumps({"content": text}) + ",\n", "{}]"),
        "big.md": ("", f"- {text}\n", ""),
        "big.csv": ("content\n", f"{text}\n", ""),
    }
    head, line, tail = lines[name]
    path = tmp_path / name
    path.write_text(head + line * 1_500 + tail, encoding="utf-8")
    source = Source(path, name)
    tracemalloc.start()
    count = sum(isinstance(entry, Memory) for entry in source.entries(now=NOW))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1_500
    assert source.done == source.size > 1_000_000
    assert peak < 700_000


def test_one_endless_line_is_refused_without_being_held(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"content": "' + "x" * 12_000_000 + '"}\n{"content": "y"}\n', encoding="utf-8")
    tracemalloc.start()
    entries = list(Source(path, "a.jsonl").entries(now=NOW))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert contents(entries) == ["y"]
    assert [(fault.line, "longer than" in fault.reason) for fault in refused(entries)] == [(1, True)]
    assert peak < 9_000_000
