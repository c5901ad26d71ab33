"""Splitting of a message with several questions into one query each."""

import re
from collections.abc import Sequence

from worker.domain.kinds import Language
from worker.text.lexicon import content_tokens, lexicon

MOST_INTENTS = 4
MOST_CHARS = 2000
"""Maximum number of characters examined in a message."""

LEAST_CONTENT = 2
"""Minimum content words of a query."""

_BULLET = re.compile(r"(?m)^[ \t]{0,8}(?:[-*•]|\d{1,2}[.)])[ \t]+")
_BREAK = re.compile(
    r"\n+|;\s+|(?<=[.!?])\s+|(?<=[。！？])|"
    r",?\s(?:and also|and then|as well as|plus also|et aussi|et puis|ainsi que|und außerdem|und auch|sowie|y también|"
    r"y además|e também|e ainda|e anche|e inoltre)\s",
    re.IGNORECASE,
)


def subqueries(text: str, languages: Sequence[Language] = tuple(Language)) -> tuple[str, ...]:
    """Split `text` into at most four queries: sentences, list items, and clauses joined by ";" or "and also".

    A part with fewer than two content words is joined to its neighbour.
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
