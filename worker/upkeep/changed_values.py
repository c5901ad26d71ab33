"""Tell whether two memories give another value for the same: the nightly backup runs at 4, or at 5. Pure.

Only clear cases count: the same words in the same order, where a number, time or day differs that ends the text and
follows a word such as "is", "at" or "on". "Shelf 3 holds nuts" and "shelf 4 holds nuts" are about two shelves.
"""

import re
import unicodedata
from collections.abc import Sequence

from worker.domain.memory import Memory, MemoryType
from worker.text.word_lists import FUNCTION_WORDS, NUMBERS

LEAST_BEFORE, MOST_AFTER = 1, 1
"""Content words before the value, which say what it is about, and after it, such as its unit."""

LEAST_BEFORE_CJK, MOST_AFTER_CJK = 3, 6
"""The same in characters, for scripts without spaces."""

MOST_CHARS = 300
FIGURE = "#"

_EVENTS = frozenset({MemoryType.EVENT, MemoryType.OBSERVATION})
_TOKEN = re.compile(r"\d[\d.,:/'’-]*\d|\d+|[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]+|[:=]")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_BEFORE_CJK = frozenset("はがをに是为為在到於于：:")


def wording_of(memory: Memory) -> str | None:
    """Return the words of a memory without their values, the same for memories that may give another one.

    `None` for one that gives none, happened once, or is long.
    """
    if memory.type in _EVENTS or memory.occurred_at is not None or len(memory.content) > MOST_CHARS:
        return None
    words = _tokens(memory.content)
    places = [place for place, word in enumerate(words) if _is_figure(word)]
    return " ".join(FIGURE if _is_figure(word) else word for word in words) if _is_value(words, places[-1:]) else None


def is_changed_value(new: str, old: str) -> bool:
    """Return whether `new` gives another value than `old` for the same."""
    words, others = _tokens(new), _tokens(old)
    if len(words) != len(others):
        return False
    differing = [place for place, word in enumerate(words) if word != others[place]]
    both = all(_is_figure(words[place]) and _is_figure(others[place]) for place in differing)
    return both and _is_value(words, differing)


def _tokens(text: str) -> list[str]:
    return [match.group() for match in _TOKEN.finditer(unicodedata.normalize("NFKC", text).casefold())]


def _is_figure(word: str) -> bool:
    return word[0].isdigit() or word in NUMBERS


def _is_value(words: Sequence[str], places: Sequence[int]) -> bool:
    """Return whether the figures at these places say what something is, not what it is about."""
    if not places or places[0] == 0:
        return False
    before, after, last = words[: places[0]], words[places[-1] + 1 :], words[places[0] - 1]
    if any(map(_is_figure, after)):
        return False
    if any(map(_CJK.match, words)):
        return len(before) >= LEAST_BEFORE_CJK and len(after) <= MOST_AFTER_CJK and last in _BEFORE_CJK
    linked = last in FUNCTION_WORDS or last in (":", "=")
    return linked and _content(before) >= LEAST_BEFORE and _content(after) <= MOST_AFTER


def _content(words: Sequence[str]) -> int:
    return sum(len(word) > 1 and word not in FUNCTION_WORDS and not _is_figure(word) for word in words)
