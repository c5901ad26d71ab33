"""Blocks of a Markdown text: front matter, list items, paragraphs and code, with the headings above them.

markdown-it parses windows of a file, so that a file of any size needs little memory. Texts are the lines of the file.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from textwrap import dedent

from markdown_it import MarkdownIt
from markdown_it.token import Token

from hooks.contract.blocks import FRAMES

from .entries import INJECTED_BLOCK, REST_SKIPPED, LeftOut, Noted, Rejected, Remark
from .front_matter import CLOSINGS, FrontMatter, front_matter
from .markdown_comments import split_comments
from .text import TextLine

WINDOW_CHARS = 16_384
MAX_WINDOW_CHARS = 1 << 17
"""A block longer than this is cut; no memory is that long."""

MAX_INDENT = 12
MAX_MARKERS = 6
"""Deeper lists are parsed as if they were this deep; only the outermost items matter."""

MAX_UNCLOSED = 20

COMMENT = "a comment"
TAG = "a tag without text"

_BLOCK_ENDS = dict(FRAMES)
_INDENT = re.compile(r"[ \t]*")
_MARKERS = re.compile(rf"(?:[ \t]*(?:>|(?:[-*+]|\d{{1,9}}[.)])(?=[ \t]))){{{MAX_MARKERS},}}")
_RULE = re.compile(r"[ \t]*([-_*])[ \t]*(?:\1[ \t]*){2,}$")
_ITEM_MARKER = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]*")
_ONLY_TAG = re.compile(r"\s*</?[A-Za-z][\w-]*(?:\s[^<>]*)?>\s*")
_RAW_HTML = re.compile(r"\s*<(?:(script|pre|style|textarea)\b|!--|\?|![A-Z\[])", re.IGNORECASE)

_markdown = MarkdownIt("commonmark").disable(["inline", "text_join", "reference"])


class BlockKind(StrEnum):
    ITEM = "item"
    PARAGRAPH = "paragraph"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Block:
    """A list item with its nested lines, a paragraph, or code; `headings` are those above it, outermost first.

    `comments` are the contents of HTML comments in it.
    """

    line: int
    text: str
    headings: tuple[str, ...]
    kind: BlockKind
    comments: tuple[str, ...] = ()


Part = FrontMatter | Block | Remark


def parts_of(lines: Iterable[TextLine]) -> Iterator[Part]:
    """Parse a Markdown text."""
    rest = iter(lines)
    first = next(rest, None)
    if first is not None and (opening := first.text.rstrip()) in CLOSINGS:
        for part in front_matter(first.number, rest, opening):
            yield part
            if isinstance(part, FrontMatter) and part.fault:
                return
    elif first is not None:
        rest = chain([first], rest)
    yield from _Parser().parts(rest)


def _readable(lines: Iterator[TextLine]) -> Iterator[TextLine | Rejected]:
    """Leave out lines that are not text, and injected blocks."""
    own: tuple[int, str] | None = None
    for line in lines:
        text = line.text.strip()
        if line.fault is not None:
            yield Rejected(line.number, line.fault)
        elif own is not None:
            own = None if text == own[1] else own
        elif text in _BLOCK_ENDS:
            own = (line.number, _BLOCK_ENDS[text])
            yield Rejected(line.number, INJECTED_BLOCK)
            yield TextLine(line.number, "")
        else:
            yield line


@dataclass
class _Open:
    """A block that code after it may still belong to."""

    line: int
    kind: BlockKind
    texts: list[str]
    end: int

    def introduces(self, line: int) -> bool:
        """Return whether code that begins at `line` belongs to this block."""
        return self.kind is not BlockKind.CODE and (line <= self.end + 1 or self.texts[-1].endswith(":"))


@dataclass
class _Parser:
    """Parses window by window. What may go on in the next window is parsed again with it."""

    headings: list[tuple[int, str]] = field(default_factory=list)
    open: _Open | None = None
    window: list[TextLine] = field(default_factory=list)
    size: int = 0
    limit: int = WINDOW_CHARS
    unclosed: int = 0
    skipped_fence: str | None = None

    def parts(self, lines: Iterator[TextLine]) -> Iterator[Part]:
        for line in _readable(lines):
            if isinstance(line, Rejected):
                yield line
                continue
            if self.skipped_fence is not None:
                self.skipped_fence = None if _closes(line.text, self.skipped_fence) else self.skipped_fence
                continue
            self.window.append(line)
            self.size += len(line.text) + 1
            if self.size >= self.limit:
                yield from self._parse(last=False)
            if self.unclosed > MAX_UNCLOSED:
                break
        while self.window:
            yield from self._parse(last=True)
        yield from self._flush()

    def _parse(self, *, last: bool) -> Iterator[Part]:
        """Parse the window, and keep of it what may be incomplete."""
        window, whole = self.window, last or self.size >= MAX_WINDOW_CHARS
        units = _units(_markdown.parse("\n".join(_structure(line.text) for line in window)))
        rest = len(window)
        if units and not whole:
            rest = units.pop().start
        for unit in units:
            if unit.end >= len(window) and (opening := _unclosed(unit, window)):
                yield from self._reopen(unit, opening, last=last)
                return
            yield from self._unit(unit)
        self._keep(window[rest:])
        self.limit = WINDOW_CHARS if rest else min(2 * self.limit, MAX_WINDOW_CHARS)

    def _keep(self, lines: Sequence[TextLine]) -> None:
        self.window = list(lines)
        self.size = sum(len(line.text) + 1 for line in lines)

    def _reopen(self, unit: "_Unit", opening: str, *, last: bool) -> Iterator[Part]:
        """Report an opening line without an end, and read what follows it as text."""
        line = self.window[unit.start]
        self.unclosed += 1
        if self.unclosed > MAX_UNCLOSED:
            yield Rejected(line.number, f"{opening} without an end, the {self.unclosed}th; {REST_SKIPPED}")
            self._keep(())
            return
        if unit.kind == "fence" and not last:
            yield Rejected(line.number, f"code longer than {MAX_WINDOW_CHARS} characters")
            self.skipped_fence = unit.markup
            self._keep(())
            return
        yield Noted(line.number, f"{opening} without an end; what follows it was read as text")
        bare = line.text.strip().lstrip("`~") if unit.kind == "fence" else _RAW_HTML.sub("", line.text, count=1)
        text = bare.lstrip("!- ") if unit.kind != "fence" else ""
        self._keep([TextLine(line.number, text), *self.window[unit.start + 1 :]])

    def _unit(self, unit: "_Unit") -> Iterator[Part]:
        lines = self.window[unit.start : unit.end]
        while lines and not lines[-1].text.strip():
            lines = lines[:-1]
        if not lines:
            return
        if unit.kind == "heading":
            yield from self._flush()
            self._push(unit.level, " ".join(_heading_text(lines, unit).split()))
        elif unit.kind in ("fence", "code_block"):
            yield from self._code(unit, lines)
        elif unit.kind == "hr":
            yield from self._flush()
        else:
            yield from self._flush()
            yield from self._text(unit, lines)

    def _inside_tags(self, lines: Sequence[TextLine]) -> Iterator[Part]:
        """Parse what stands between tags, such as a list of rules."""
        yield from _Parser(headings=list(self.headings)).parts(iter(lines))

    def _code(self, unit: "_Unit", lines: Sequence[TextLine]) -> Iterator[Part]:
        text = dedent("\n".join(line.text.rstrip() for line in lines)) if unit.kind == "code_block" else _fenced(lines)
        number, end = lines[0].number, lines[-1].number
        if self.open is not None and self.open.introduces(number):
            self.open.texts.append(text)
            self.open.end = end
            return
        yield from self._flush()
        self.open = _Open(number, BlockKind.CODE, [text], end)

    def _text(self, unit: "_Unit", lines: Sequence[TextLine]) -> Iterator[Part]:
        if unit.kind == "item":
            while len(lines) > 1 and _ONLY_TAG.fullmatch(lines[-1].text):
                lines = lines[:-1]  # a list between tags may end at the closing one
            text, kind = _item_text(unit, lines), BlockKind.ITEM
        else:
            kept = [line for line in lines if not _ONLY_TAG.fullmatch(line.text)]
            if not kept:
                yield LeftOut(lines[0].number, TAG)
            elif unit.kind == "html" and len(kept) < len(lines):
                yield from self._inside_tags(kept)
                return
            text, kind = "\n".join(line.text.strip() for line in kept), BlockKind.PARAGRAPH
        if text.strip():
            self.open = _Open(lines[0].number, kind, [text.strip()], lines[-1].number)

    def _push(self, level: int, title: str) -> None:
        self.headings = [entry for entry in self.headings if entry[0] < level]
        if title:
            self.headings.append((level, title))

    def _flush(self) -> Iterator[Part]:
        opened, self.open = self.open, None
        if opened is None:
            return
        text = "\n".join(opened.texts)
        comments: tuple[str, ...] = ()
        if "<!--" in text:
            text, comments = split_comments(text)
            text = "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
        if text.strip():
            headings = tuple(title for _, title in self.headings)
            yield Block(opened.line, text.strip(), headings, opened.kind, comments)
        elif comments:
            yield LeftOut(opened.line, COMMENT)


@dataclass(frozen=True, slots=True)
class _Unit:
    """A top-level block or list item of a window, with its first line and the one after its last."""

    kind: str
    start: int
    end: int
    level: int = 0
    markup: str = ""
    inner: tuple["_Unit", ...] = ()


def _structure(text: str) -> str:
    """Return a line as it is parsed: with the same blocks, but never nested deeply."""
    text = text.replace("\0", " ").replace("\r", " ")
    indent = _INDENT.match(text)
    if indent is not None and len(indent[0].expandtabs(4)) > MAX_INDENT:
        text = " " * MAX_INDENT + text[indent.end() :]
    if (markers := _MARKERS.match(text)) and not _RULE.match(text):
        text = text[: markers.end()].replace(">", "x").replace("-", "x") + "x"
    return text


def _units(tokens: Sequence[Token]) -> list[_Unit]:
    """Return the outermost blocks; a list is replaced by its items."""
    units: list[_Unit] = []
    for place, token in enumerate(tokens):
        kind = token.type.removesuffix("_open")
        if token.map is None or token.nesting < 0:
            continue
        if token.level == 0 and kind not in ("bullet_list", "ordered_list"):
            level = int(token.tag[1]) if kind == "heading" else 0
            start, end = token.map
            units.append(_Unit({"html_block": "html"}.get(kind, kind), start, end, level, token.markup))
        elif token.level == 1 and kind == "list_item":
            start, end = token.map
            units.append(_Unit("item", start, end, inner=_inner(tokens, place)))
    return units


def _inner(tokens: Sequence[Token], place: int) -> tuple[_Unit, ...]:
    """Return the blocks directly inside the list item that opens at `place`."""
    found: list[_Unit] = []
    for token in tokens[place + 1 :]:
        if token.level == 1:
            break
        if token.level == 2 and token.nesting >= 0 and token.map is not None:
            start, end = token.map
            found.append(_Unit(token.type.removesuffix("_open"), start, end))
    return tuple(found)


def _unclosed(unit: _Unit, window: Sequence[TextLine]) -> str | None:
    """Return what opened a block that reaches the end of the window without being closed."""
    lines = [line.text for line in window[unit.start : unit.end]]
    if unit.kind == "fence":
        return None if len(lines) > 1 and _closes(lines[-1], unit.markup) else "a code fence"
    if unit.kind != "html" or not (raw := _RAW_HTML.match(lines[0])):
        return None
    text = "\n".join(lines)
    if raw[1]:
        return None if f"</{raw[1].lower()}>" in text.lower() else f"<{raw[1].lower()}>"
    return None if (("-->" if raw[0].endswith("!--") else ">") in text[raw.end() :]) else "a comment"


def _closes(text: str, fence: str) -> bool:
    return text.strip().startswith(fence) and not text.strip().strip(fence[0])


def _heading_text(lines: Sequence[TextLine], unit: _Unit) -> str:
    if unit.markup.startswith("#"):
        return re.sub(r"(?:^|\s)#+\s*$", "", lines[0].text.strip().lstrip("#"))
    return " ".join(line.text.strip() for line in lines[:-1])


def _fenced(lines: Sequence[TextLine]) -> str:
    """Return a fenced block without its indentation."""
    indent = _INDENT.match(lines[0].text)
    width = indent.end() if indent is not None else 0
    texts = (line.text.rstrip() for line in lines)
    return "\n".join(text[min(width, len(text) - len(text.lstrip())) :] for text in texts)


def _item_text(unit: _Unit, lines: Sequence[TextLine]) -> str:
    """Return an item without its marker: nested lists as they are written, other lines without indentation."""
    marker = _ITEM_MARKER.match(lines[0].text)
    first = TextLine(lines[0].number, lines[0].text[marker.end() :] if marker else lines[0].text)
    body = [first, *lines[1:]]
    texts: list[str] = []
    done = 0
    for inner in unit.inner:
        part = body[max(inner.start - unit.start, done) : inner.end - unit.start]
        done = max(done, inner.end - unit.start)
        if not part:
            continue
        if inner.kind == "fence":
            texts.append(_fenced(part))
        elif inner.kind in ("bullet_list", "ordered_list", "code_block"):
            texts += [line.text.rstrip() for line in part if line.text.strip()]
        else:
            texts += [line.text.strip() for line in part if line.text.strip()]
    texts += [line.text.strip() for line in body[done:] if line.text.strip()]
    return "\n".join(texts)
