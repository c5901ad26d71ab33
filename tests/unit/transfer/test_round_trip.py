"""What an export writes, an import reads back the same, in every format; and no file breaks a reader."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile_files import HOSTILE_FILES
from worker.domain.cues import Cue, CueOrigin
from worker.domain.errors import MemoryRejected
from worker.domain.evidence import Evidence
from worker.domain.memory import Memory, MemoryScope, MemoryType, Relation
from worker.text.invisible import is_blank
from worker.transfer.entries import Remark
from worker.transfer.fields import to_line
from worker.transfer.formats import Format, Source
from worker.transfer.markdown_export import markdown_item, type_heading
from worker.transfer.table import table_head, table_row

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20).filter(
    str.strip
)
names = words.map("n{}".format)
"""Names have something to see."""

ODD = [
    *(
        "<!--",
        "-->",
        "`",
        "```",
        "~~~",
        "- ",
        "* ",
        "1. ",
        "# ",
        "> ",
        "| ",
        "[x] ",
        "[ ] ",
        "---",
        "===",
        "\n",
        "\r\n",
    ),
    *(
        "\n\n",
        "    ",
        "\t",
        "=1+1",
        "'=",
        "@a.md",
        "<b>",
        "</script>",
        "\\",
        "&amp;",
        "2026-01-31",
        "(2026-01-31)",
        ": ",
    ),
    *(
        "[a]: b",
        "[a](b.md)",
        '"',
        ";",
        ",",
        "<memory",
        "\u2028",
        "\x0b",
        "\x85",
        "null",
        "{}",
        "é",
        "経費",
        "🦊",
        "\ufeff",
    ),
]
odd_texts = (
    st.lists(st.sampled_from(ODD) | words, min_size=1, max_size=8)
    .map("".join)
    .filter(lambda text: not is_blank(text) and "memory_context" not in text and not text.lower().startswith("lorem"))
)
moments = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
evidence = st.builds(
    Evidence,
    text=words,
    turns=st.lists(words, max_size=2).map(tuple),
    said_at=st.none() | moments,
    session=st.none() | words,
    host=st.none() | words,
    capture=words,
    model=st.none() | words,
    prompt=st.none() | words,
)
cues = st.builds(
    Cue,
    text=words.map(lambda text: " ".join(text.split())).filter(bool),
    origin=st.sampled_from(CueOrigin),
    prompt=st.none() | words,
    user=st.none() | words,
)
memories = st.builds(
    Memory,
    id=words,
    type=st.sampled_from(MemoryType),
    content=odd_texts,
    context=st.none() | words,
    importance=st.floats(0, 1),
    created_at=st.none() | moments,
    occurred_at=st.none() | moments,
    valid_until=st.none() | moments,
    superseded_by=st.none() | words,
    superseded_at=st.none() | moments,
    entities=st.lists(words, max_size=3).map(tuple),
    relations=st.lists(st.builds(Relation, kind=words, target=words), max_size=2).map(tuple),
    scope=st.builds(MemoryScope, user=st.none() | names, agent=st.none() | names, project=st.none() | names),
    channel=st.none() | names,
    source=st.none() | words,
    version=st.integers(1, 99),
    cues=st.lists(cues, max_size=2, unique_by=lambda cue: cue.text).map(tuple),
    evidence=st.none() | evidence,
    pinned=st.booleans(),
)


@contextmanager
def stored(text: str, name: str) -> Iterator[Source]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(text.encode("utf-8"))
        yield Source(path, name)


def read_back(text: str, name: str) -> list[Memory | Remark]:
    with stored(text, name) as source:
        return list(source.entries())


@given(st.lists(memories, max_size=4))
def test_whatever_is_exported_as_json_lines_is_imported_equal(given: list[Memory]) -> None:
    lines = [to_line(memory) + "\n" for memory in given]
    assert all(line.count("\n") == 1 for line in lines)
    assert read_back("".join(lines), "x.jsonl") == given


@given(st.lists(memories, max_size=4))
def test_whatever_is_exported_as_a_table_is_imported_equal(given: list[Memory]) -> None:
    assert read_back(table_head() + "".join(map(table_row, given)), "x.csv") == given


@given(st.lists(memories, max_size=4))
def test_whatever_is_exported_as_markdown_is_imported_equal(given: list[Memory]) -> None:
    text = "".join(type_heading(memory.type) + markdown_item(memory) + "\n" for memory in given)
    assert read_back(text, "x.md") == given


def test_a_table_of_an_earlier_version_is_read_as_one_of_ours() -> None:
    memory = Memory(id="m", content="=1+1")
    text = "".join(",".join(line.split(",")[:-1]) + "\n" for line in (table_head(), table_row(memory)))
    assert "pinned" not in text
    assert read_back(text, "x.csv") == [memory]


@pytest.mark.parametrize(("word", "pinned"), [("true", True), ("Yes", True), ("1", True), ("no", False), ("0", False)])
def test_a_table_says_what_is_pinned(word: str, pinned: bool) -> None:
    (found,) = read_back(f"id,content,created_at,pinned\nm,Ring twice,null,{word}\n", "x.csv")
    assert isinstance(found, Memory)
    assert found.pinned is pinned


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "'=", "''+"])
def test_no_cell_of_a_table_is_a_formula(start: str) -> None:
    memory = Memory(id=f"{start}1", content=f"{start}cmd|' /C calc'!A0", source=f"{start}x", created_at=None)
    row = table_row(memory)
    assert all(cell.lstrip('"')[:1] not in tuple("=+-@\t") for cell in row.split(","))
    assert read_back(table_head() + row, "x.csv") == [memory]


def test_an_edited_export_is_taken_as_it_is_now() -> None:
    item = markdown_item(
        Memory(id="m1", content="Never leave `<!--` open", created_at=datetime(2026, 1, 3, tzinfo=UTC))
    )
    (memory,) = read_back(item.replace("open", "shut"), "x.md")
    assert isinstance(memory, Memory)
    assert (memory.id, memory.content) == ("m1", "Never leave `<!--` shut")


pieces = st.lists(
    st.sampled_from(
        [
            *ODD,
            *(
                '{"content":',
                '{"text": "a"}',
                "[",
                "]",
                "{",
                "}",
                "content",
                "user",
                "scope",
                "expires",
                '"content"',
                "null",
            ),
            *("---\n", "user: ", "date: ", "tags: ", "&a ", "*a ", "!x ", "- " * 50, "> " * 50, " " * 60, "9" * 50),
            *(
                '"results":',
                "namespace",
                "observations",
                "<pre>",
                "<![CDATA[",
                "\x00",
                "1e999",
                "\\u0000",
                '""',
                "text,type\n",
            ),
        ]
    )
    | words,
    max_size=40,
).map("".join)


@given(pieces, st.sampled_from(Format))
def test_no_file_breaks_a_reader(text: str, kind: Format) -> None:
    with stored(text, "x") as source:
        assert_readable(source.path, kind)


@pytest.mark.parametrize("kind", Format)
def test_no_hostile_file_breaks_a_reader(tmp_path: Path, kind: Format) -> None:
    for number, content in enumerate(HOSTILE_FILES):
        path = tmp_path / str(number)
        path.write_bytes(content)
        assert_readable(path, kind)


def assert_readable(path: Path, kind: Format) -> None:
    started = time.process_time()
    try:
        for entry in Source(path, "x", kind).entries():
            if isinstance(entry, Memory):
                assert entry.content.strip()
            else:
                assert entry.reason
    except MemoryRejected:  # the format is unclear
        pass
    assert time.process_time() - started < 5
