"""A minimal Markdown parser that yields front matter, list items and paragraphs with their headings."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from hooks.contract.blocks import FRAMES

from .entries import INJECTED_BLOCK, Rejected
from .text import TextLine

MAX_FRONT_LINES = 200

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+(.*)$")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,})$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_COMMENT = re.compile(r"<!--.*?-->")
_BLOCK_ENDS = dict(FRAMES)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields at the top of a file, between lines of dashes."""

    line: int
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Block:
    """A list item with its nested lines, or a paragraph; `headings` are those above it, outermost first."""

    line: int
    text: str
    headings: tuple[str, ...]
    item: bool


Part = FrontMatter | Block | Rejected


@dataclass
class _Open:
    """A block that is not complete yet."""

    line: int
    item: bool
    lines: list[str] = field(default_factory=list)


def parts_of(lines: Iterable[TextLine]) -> Iterator[Part]:
    """Parse a Markdown text."""
    return _Parser().parts(iter(lines))


class _Parser:
    """Parses line by line, keeping one open block and the headings above it."""

    def __init__(self) -> None:
        self._headings: list[tuple[int, str]] = []
        self._open: _Open | None = None
        self._after_blank = False
        self._fence: str | None = None
        self._keep_fence = False
        self._comment = False
        self._own_block: tuple[int, str] | None = None

    def parts(self, lines: Iterator[TextLine]) -> Iterator[Part]:
        first = next(lines, None)
        if first is not None and first.text.rstrip() == "---":
            yield from _front_matter(first.number, lines)
        elif first is not None:
            yield from self._line(first)
        for line in lines:
            yield from self._line(line)
        if self._own_block is not None:
            yield Rejected(self._own_block[0], INJECTED_BLOCK)
        yield from self._flush()

    def _line(self, line: TextLine) -> Iterator[Part]:
        if line.fault is not None:
            yield Rejected(line.number, line.fault)
        elif self._own_block is not None:
            if line.text.strip() == self._own_block[1]:
                yield Rejected(self._own_block[0], INJECTED_BLOCK)
                self._own_block = None
        elif self._fence is not None:
            self._fenced(line.text)
        elif line.text.strip() in _BLOCK_ENDS:
            yield from self._flush()
            self._own_block = (line.number, _BLOCK_ENDS[line.text.strip()])
        else:
            yield from self._text(line.number, self._without_comments(line.text))

    def _text(self, number: int, text: str) -> Iterator[Part]:
        if not text.strip():
            self._after_blank = True
        elif fence := _FENCE.match(text):
            self._begin_fence(fence[1], text)
        elif heading := _HEADING.match(text):
            yield from self._flush()
            self._push(len(heading[1]), heading[2])
        elif (under := _UNDERLINE.match(text)) and self._is_title():
            self._push(1 if under[1].startswith("=") else 2, self._take_title())
        elif _RULE.match(text):
            yield from self._flush()
        elif item := _ITEM.match(text):
            yield from self._item(number, item, text)
        else:
            yield from self._plain(number, text)

    def _item(self, number: int, item: "re.Match[str]", text: str) -> Iterator[Part]:
        nested = len(item[1].expandtabs(4)) >= 2 and self._open is not None and self._open.item
        if nested and self._open is not None:
            self._open.lines.append(text.rstrip())
            self._after_blank = False
            return
        yield from self._flush()
        self._open = _Open(number, True, [item[2].strip()])

    def _plain(self, number: int, text: str) -> Iterator[Part]:
        indented = text.startswith(("  ", "\t"))
        goes_on = self._open is not None and (not self._after_blank or (self._open.item and indented))
        if not goes_on:
            yield from self._flush()
            self._open = _Open(number, False)
        if self._open is not None:
            self._open.lines.append(text.strip())
        self._after_blank = False

    def _begin_fence(self, fence: str, text: str) -> None:
        # code belongs to the text that introduces it; code without such text is dropped
        opened = self._open
        introduces = opened is not None and (not self._after_blank or opened.lines[-1].endswith(":"))
        self._fence, self._keep_fence = fence, introduces
        self._after_blank = False
        if opened is not None and introduces:
            opened.lines.append(text.strip())

    def _fenced(self, text: str) -> None:
        if self._keep_fence and self._open is not None:
            self._open.lines.append(text.rstrip())
        if self._fence is not None and text.strip().startswith(self._fence) and not text.strip().strip("`~"):
            self._fence = None

    def _without_comments(self, text: str) -> str:
        if self._comment:
            _, end, text = text.partition("-->")
            self._comment = not end
        text = _COMMENT.sub("", text)
        before, begin, _ = text.partition("<!--")
        if begin:
            self._comment = True
        return before

    def _is_title(self) -> bool:
        opened = self._open
        return opened is not None and not opened.item and len(opened.lines) == 1 and not self._after_blank

    def _take_title(self) -> str:
        title = self._open.lines[0] if self._open else ""
        self._open = None
        return title

    def _push(self, level: int, title: str) -> None:
        self._headings = [entry for entry in self._headings if entry[0] < level]
        if title.strip():
            self._headings.append((level, title.strip()))

    def _flush(self) -> Iterator[Part]:
        opened, self._open = self._open, None
        self._after_blank = False
        if opened is not None and (text := "\n".join(opened.lines).strip()):
            yield Block(opened.line, text, tuple(title for _, title in self._headings), opened.item)


def _front_matter(number: int, lines: Iterator[TextLine]) -> Iterator[Part]:
    kept: list[str] = []
    for line in lines:
        if line.text.rstrip() in ("---", "..."):
            yield _parsed_front(number, kept)
            return
        kept.append(line.text)
        if len(kept) > MAX_FRONT_LINES:
            break
    yield Rejected(number, "front matter: no closing line; skipped")


def _parsed_front(number: int, lines: list[str]) -> Part:
    try:
        values = yaml.safe_load("\n".join(lines))
    except yaml.YAMLError:
        return Rejected(number, "front matter: not valid YAML; skipped")
    if values is None:
        return FrontMatter(number, {})
    if not isinstance(values, dict):
        return Rejected(number, "front matter: must consist of keys and values; skipped")
    return FrontMatter(number, {str(key).lower(): value for key, value in values.items()})
