"""Rendering of selected memories as a block: one memory per line, best first, inside one frame.

Stored text is untrusted: it is reduced to one line and can neither close the frame nor imitate a role.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

from hooks.contract import BlockFormat, ItemSource
from hooks.contract.blocks import PLAIN_FRAME, SECTIONS_FRAME, XML_FRAME, marked_notice
from worker.domain.memory import MEMORIES_CACHED, Memory, MemoryType
from worker.domain.zones import day_in

from .defusing import CONTEXTUAL_TITLE, PINNED_TITLE, neutralise
from .excerpts import excerpt
from .invisible import without_needless
from .masking import mask_secrets

FRAME_OF = {BlockFormat.XML: XML_FRAME, BlockFormat.PLAIN: PLAIN_FRAME, BlockFormat.SECTIONS: SECTIONS_FRAME}
OUTDATED = "no longer holds"

_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Unicode categories Cc, Zl and Zp."""


_SUFFIX = re.compile(rf"[ \t]\((?:(\d{{4}}-\d{{2}}-\d{{2}})(, {OUTDATED})?|({OUTDATED}))\)$")
"""The end of a line as `dated` writes it."""

MAX_OWNER_CHARS = 60

MOST_CHARS_CACHED = 2000
"""Characters of the longest content whose shown text is cached."""

SHORTEST_EXCERPT = 40
"""Characters of an excerpt that identify the memory it comes from."""


@dataclass(frozen=True, slots=True)
class RenderedMemory:
    """One memory as shown in a block, with the date in `zone`; `text` has no date, `outdated` means superseded."""

    memory: Memory
    text: str
    source: ItemSource
    outdated: bool = False
    zone: tzinfo = UTC


def flatten(text: str, limit: int, query: str = "") -> str:
    """Return `text` on one line of at most `limit` characters, without invisible characters.

    Of a longer text, the part that says most of `query` is kept, else its beginning.
    """
    return excerpt(_on_one_line(text), limit, query)


def _on_one_line(text: str) -> str:
    text = without_needless(text.encode("utf-8", "replace").decode("utf-8"))
    return " ".join(_BREAKING.sub(" ", text).split())


def shown_text(content: str, limit: int, *, mask: bool, query: str = "") -> str:
    """Return a memory's content as shown outside the store: masked if wanted, on one line, and defused."""
    if len(content) <= MOST_CHARS_CACHED and len(whole := _shown_whole(content, mask)) <= limit:
        return whole
    return neutralise(flatten(mask_secrets(content) if mask else content, limit, query))


@lru_cache(maxsize=MEMORIES_CACHED)  # a receipt has the texts of all candidates
def _shown_whole(content: str, mask: bool) -> str:
    text = neutralise(_on_one_line(mask_secrets(content) if mask else content))
    return content if text == content else text  # one text instead of two equal ones


def attributed(text: str, owner: str | None, asker: str | None) -> str:
    """Return the shown text of a memory with whose words they are ("hana: wants aisle seats"), unless the asker's."""
    if owner is None or owner == asker:
        return text
    name = neutralise(flatten(owner, MAX_OWNER_CHARS))
    rest = text[len(name) :] if text.casefold().startswith(name.casefold()) else None
    return f"{name}: {text}" if rest is None or rest[:1].isalnum() else text


def dated(line: RenderedMemory) -> str:
    """Return `text (YYYY-MM-DD)`, or `text (YYYY-MM-DD, no longer holds)` for an outdated memory.

    The date is that of the event, else that of the memory's creation; it is omitted if neither is known.
    """
    day = shown_day(line.memory, line.zone)
    about = [f"{day:%Y-%m-%d}"] if day else []
    about += [OUTDATED] if line.outdated else []
    return f"{line.text} ({', '.join(about)})" if about else line.text


def body(lines: Sequence[RenderedMemory], style: BlockFormat) -> str:
    """Return the block without its frame and notice."""
    if style is not BlockFormat.SECTIONS:
        return "\n".join(map(dated, lines))
    pinned = [line for line in lines if line.source is ItemSource.PINNED]
    contextual = [line for line in lines if line.source is ItemSource.CONTEXTUAL]
    parts = [(PINNED_TITLE, pinned), (CONTEXTUAL_TITLE, contextual)]
    return "\n\n".join("\n".join([title, *map(_labelled, group)]) for title, group in parts if group)


def _labelled(line: RenderedMemory) -> str:
    return f"{_label(line.memory.type)} {dated(line)}"


def _label(kind: MemoryType) -> str:
    return f"[{kind.value.replace('_', ' ').capitalize()}]"


_LABEL = re.compile(f"(?:{'|'.join(re.escape(_label(kind)) for kind in MemoryType)}) +")


def shown_day(memory: Memory, zone: tzinfo = UTC) -> date | None:
    """Return the day shown with a memory: that of the event, else of its creation."""
    moment = memory.occurred_at or memory.created_at
    return day_in(moment, zone) if moment else None


def days_anywhere(memory: Memory) -> frozenset[date]:
    """Return the days that a memory may be shown with, in any time zone."""
    return frozenset(day for zone in _ENDS if (day := shown_day(memory, zone)) is not None)


_ENDS = (timezone(timedelta(hours=-12)), UTC, timezone(timedelta(hours=14)))


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A text read as a line of a block: without its label, date and mark."""

    text: str
    day: date | None = None
    outdated: bool = False


def readings(text: str) -> tuple[ShownLine, ...]:
    """Return what `text` says: as it is, and without the parts that a block adds to a memory."""
    whole = ShownLine(text)
    bare = _LABEL.sub("", text.strip().removeprefix("- "), count=1)
    if (suffix := _SUFFIX.search(bare)) is None:
        return (whole,) if bare == text.strip() else (whole, ShownLine(bare))
    try:
        day = datetime.strptime(suffix[1], "%Y-%m-%d").replace(tzinfo=UTC).date() if suffix[1] else None
    except ValueError:
        return (whole,)
    return whole, ShownLine(bare[: suffix.start()], day, outdated=bool(suffix[2] or suffix[3]))


def is_shown_as(content: str, text: str) -> bool:
    """Return whether a block may show `content` as `text`: the same words, or an excerpt of them."""
    whole, given = _comparable(content), _comparable(text)
    excerpt = given.strip("…").strip()
    if excerpt == given or len(excerpt) < SHORTEST_EXCERPT:
        return whole == given
    return excerpt in whole


def _comparable(text: str) -> str:
    return shown_text(text, len(text) + 1, mask=True)


def block(lines: Sequence[RenderedMemory], style: BlockFormat, nonce: str = "aaaa") -> str | None:
    """Return the complete block, or `None` without lines. `nonce`, four letters from a to p, differs between blocks."""
    if not lines:
        return None
    opening, closing = FRAME_OF[style]
    inside = body(lines, style)
    return f"{opening}\n{marked_notice(inside, nonce)}\n{inside}\n{closing}"
