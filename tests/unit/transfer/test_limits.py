"""No file costs much time or memory, and one bad entry or file never costs the good ones."""

import json
import os
import time
import tracemalloc
from pathlib import Path

import pytest

from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory
from worker.transfer.apart import read_apart
from worker.transfer.entries import Rejected, Remark
from worker.transfer.formats import Format, Source, sources

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def entries_of(path: Path, text: str) -> list[Memory | Remark]:
    path.write_text(text, encoding="utf-8")
    return list(Source(path, path.name).entries())


@pytest.mark.parametrize(
    "front",
    [
        BOMB,
        "tags: " + "[" * 3000 + "]" * 3000,
        "tags: " + "{a: " * 3000,
        "number: " + "9" * 6000,
        "date: 2026-02-31",
        "date: 99999-99-99",
        "tags: !unknown [a]",
        "x: " + "y" * 30_000,
        "? [a]\n: b",
        "\x07: a",
    ],
)
def test_odd_front_matter_costs_no_note(tmp_path: Path, front: str) -> None:
    tracemalloc.start()
    started = time.process_time()
    entries = entries_of(tmp_path / "n.md", f"---\n{front}\n---\n- Tea at four\n")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [entry.content for entry in entries if isinstance(entry, Memory)] == ["Tea at four"]
    assert len(entries) == 2 or "!unknown" in front
    assert time.process_time() - started < 5
    assert peak < 10_000_000


@pytest.mark.parametrize(
    "value",
    [
        "[" * 3000 + "]" * 3000,
        "9" * 6000,
        '{"a":' * 3000 + "1" + "}" * 3000,
        '"' + "x" * 1_500_000 + '"',
        '"\\' + '"]"',
    ],
)
def test_an_odd_value_costs_only_its_entry(tmp_path: Path, value: str) -> None:
    array = f'[{{"content": "one"}}, {{"colour": {value}, "content": "odd"}}, {{"content": "two"}}]'
    for name, text in (("a.json", array), ("b.json", f'{{"other": {value}, "items": {array}}}')):
        entries = entries_of(tmp_path / name, text)
        contents = [entry.content for entry in entries if isinstance(entry, Memory)]
        assert [content for content in contents if content != "odd"] == ["one", "two"]
    lines = entries_of(tmp_path / "a.jsonl", f'{{"content": "one"}}\n{{"x": {value}}}\n{{"content": "two"}}\n')
    assert [entry.content for entry in lines if isinstance(entry, Memory)] == ["one", "two"]
    assert [entry.line for entry in lines if isinstance(entry, Rejected)] == [2]


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{'  ' * depth}- x\n" for depth in range(3000)),
        "- " * 30_000 + "x\n",
        "".join(f"{'> ' * depth}x\n" for depth in range(1, 1500)),
        "".join(f"{'`' * (3 + n % 50)}\nx\n" for n in range(5000)),
        "<!-- `" * 3000,
        "<a " + "b " * 20_000 + "\n",
    ],
)
def test_deep_and_endless_markdown_is_read_in_time(tmp_path: Path, text: str) -> None:
    started = time.process_time()
    assert entries_of(tmp_path / "n.md", text)
    assert time.process_time() - started < 10


def test_quotes_that_are_never_closed_are_bounded(tmp_path: Path) -> None:
    started = time.process_time()
    row = f"{'row ' * 8}\n"
    entries = entries_of(tmp_path / "t.csv", "content\n" + ('"open\n' + row * 5_000) * 3)
    assert [entry.line for entry in entries if isinstance(entry, Rejected)] == [2, 5_003, 10_004]
    assert sum(isinstance(entry, Memory) for entry in entries) == 15_000
    assert time.process_time() - started < 30


def test_a_folder_leaves_out_what_is_not_its_own(tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "outside.md"
    outside.write_text("- Secret", encoding="utf-8")
    for name in (
        *("CLAUDE.md", "docs/notes.txt", "node_modules/pad/README.md", "vendor/x.md", "lib/site-packages/y.md"),
        *(
            "package-lock.json",
            "LICENSE.md",
            "drafts/a.md",
            "drafts/kept.md",
            "logs/b.md",
            "src/main.py",
            "src/fixture.json",
        ),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("- x", encoding="utf-8")
    (folder / ".gitignore").write_text("drafts/*\n!drafts/kept.md\n/logs/\n", encoding="utf-8")
    (folder / "link.md").symlink_to(outside)
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "around").symlink_to(folder)
    os.mkfifo(folder / "pipe.md")
    found = sources([folder])
    assert [source.name for source in found.files] == ["CLAUDE.md", "docs/notes.txt", "drafts/kept.md"]
    reasons = {name: remark.reason for name, remark in found.left_out}
    assert reasons.keys() == {
        *("link.md", "loop.md", "around/", "pipe.md", "node_modules/", "vendor/", "lib/site-packages/"),
        *("package-lock.json", "LICENSE.md", "drafts/a.md", "logs/", "src/fixture.json", str(folder)),
    }
    assert "leaves the folder" in reasons["link.md"]
    assert "1 .py" in reasons[str(folder)]


@pytest.mark.parametrize(
    ("start", "word"),
    [(b"SQLite format 3\0", "SQLite"), (b"%PDF-1.7", "PDF"), (b"PK\x03\x04", "ZIP"), (b"PAR1", "Parquet")],
)
def test_a_format_that_is_not_read_is_named(tmp_path: Path, start: bytes, word: str) -> None:
    (tmp_path / "x.bin").write_bytes(start + b"\0" * 100)
    with pytest.raises(MemoryRejected, match=word):
        Source(tmp_path / "x.bin", "x.bin").format()


async def test_a_file_is_read_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"content": "one"}\nnonsense\n{"content": "two", "colour": 1}\n', encoding="utf-8")
    async with read_apart(path, None, mask=False) as entries:
        apart = [entry async for entry in entries]
    assert apart == list(Source(path, "a.jsonl").entries())


async def test_reading_apart_can_be_stopped_and_gives_up(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    path.write_text("".join(json.dumps({"content": f"Barge {n}"}) + "\n" for n in range(200_000)), encoding="utf-8")
    async with read_apart(path, Format.JSONL, mask=False) as entries:
        first = await anext(entries)
    assert isinstance(first, Memory)
    async with read_apart(path, Format.JSONL, mask=False, stalled_s=0.0) as entries:
        (remark,) = [entry async for entry in entries]
    assert isinstance(remark, Rejected)
    assert "took too long" in remark.reason
