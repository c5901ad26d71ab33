"""Rendering of selected memories as a block: one memory per line, best first, inside one frame.

Stored text is untrusted: it is reduced to one line and can neither close the frame nor imitate a role.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hooks.contract import BlockFormat, ItemSource
from hooks.contract.blocks import FRAMES, NOTICE, PLAIN_FRAME, SECTIONS_FRAME, XML_FRAME
from worker.domain.memory import Memory

from .masking import mask_secrets

FRAME_OF = {BlockFormat.XML: XML_FRAME, BlockFormat.PLAIN: PLAIN_FRAME, BlockFormat.SECTIONS: SECTIONS_FRAME}
OUTDATED = "no longer holds"
PINNED_TITLE = "[Pinned context]"
CONTEXTUAL_TITLE = "[Relevant to this message]"

_ROLE_WORDS = "memory|context|system|assistant|human|user|tool|function|instruct|prompt|think|invoke|reminder|command"
_ROLE_TAG = re.compile(rf"<(?=\s*/?\s*[\w:.-]*(?:{_ROLE_WORDS})[\w:.-]*)|<(?=\s*\|)", re.IGNORECASE)
_MARKERS = re.compile(
    "|".join(
        re.escape(marker).replace(r"\ ", r"\s+")
        for marker in (*(m for frame in FRAMES for m in frame if m.startswith("[")), PINNED_TITLE, CONTEXTUAL_TITLE)
    ),
    re.IGNORECASE,
)
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Unicode categories Cc, Zl and Zp."""


@dataclass(frozen=True, slots=True)
class RenderedMemory:
    """One memory as shown in a block; `text` has no date, `outdated` means superseded."""

    memory: Memory
    text: str
    source: ItemSource
    outdated: bool = False


def flatten(text: str, limit: int) -> str:
    """Return `text` on one line of at most `limit` characters, without invisible characters."""
    text = _INVISIBLE.sub("", text.encode("utf-8", "replace").decode("utf-8"))
    text = " ".join(_BREAKING.sub(" ", text).split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def neutralise(text: str) -> str:
    """Defuse tags that could open or close a frame or a role; other markup is unchanged."""
    text = _ROLE_TAG.sub("‹", text)
    return _MARKERS.sub(lambda match: f"({match.group()[1:-1]})", text)


def shown_text(content: str, limit: int, *, mask: bool) -> str:
    """Return a memory's content as shown outside the store: masked if wanted, on one line, and defused."""
    return neutralise(flatten(mask_secrets(content) if mask else content, limit))


def dated(line: RenderedMemory) -> str:
    """Return `text (YYYY-MM-DD)`, or `text (YYYY-MM-DD, no longer holds)` for an outdated memory.

    The date is that of the event, else that of the memory's creation, in UTC; it is omitted if neither is known.
    """
    day = line.memory.occurred_at or line.memory.created_at
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
    label = line.memory.type.value.replace("_", " ").capitalize()
    return f"[{label}] {dated(line)}"


def block(lines: Sequence[RenderedMemory], style: BlockFormat) -> str | None:
    """Return the complete block, or `None` without lines."""
    if not lines:
        return None
    opening, closing = FRAME_OF[style]
    return f"{opening}\n{NOTICE}\n{body(lines, style)}\n{closing}"
