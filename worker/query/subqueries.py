"""Splits a message that asks for several things into one query each. Pure."""

import re
from collections.abc import Sequence

from worker.domain.kinds import Language
from worker.text.lexicon import content_tokens, lexicon

MOST_INTENTS = 4
MOST_CHARS = 2000
"""Characters of a message that are looked at."""

LEAST_CONTENT = 2
"""Content tokens from which a part can be searched with."""

_BULLET = re.compile(r"(?m)^[ \t]{0,8}(?:[-*•]|\d{1,2}[.)])[ \t]+")
_BREAK = re.compile(
    r"\n+|;\s+|(?<=[.!?])\s+|(?<=[。！？])|"
    r",?\s(?:and also|and then|as well as|plus also|et aussi|et puis|ainsi que|und außerdem|und auch|sowie|y también|"
    r"y además|e também|e ainda|e anche|e inoltre)\s",
    re.IGNORECASE,
)


def subqueries(text: str, languages: Sequence[Language] = tuple(Language)) -> tuple[str, ...]:
    """The parts of `text` that can be searched with, at most four; `text` itself when it asks for one thing.

    Parts are sentences, list items and what "; " or "and also" join. A part with fewer than two content tokens
    belongs to the one before it.
    """
    known = lexicon(tuple(languages))
    parts: list[tuple[str, int]] = []
    for piece in _BREAK.split(_BULLET.sub("\n", text[:MOST_CHARS])):
        part = " ".join(piece.split())
        content = content_tokens(part, known)
        if parts and min(content, parts[-1][1]) < LEAST_CONTENT:
            before, counted = parts.pop()
            parts.append((f"{before} {part}".strip(), counted + content))
        elif part:
            parts.append((part, content))
    if len(parts) < 2:
        return (text,)
    found = [part for part, _ in parts]
    last = " ".join(found[MOST_INTENTS - 1 :])
    return (*found[: MOST_INTENTS - 1], *([last] if last else []))
