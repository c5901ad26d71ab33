"""Shorten texts at borders of graphemes (what people see as characters), and around what was asked for. Pure."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

import regex

from .lexicon import fold, tokens
from .word_lists import FUNCTION_WORDS

ELLIPSIS = "…"

LONGEST_GRAPHEME = 64
"""Characters of a grapheme from which it is no writing and is cut anywhere."""

MOST_BEFORE = 4_000
"""Characters before a cut that are read to find the border: flags, for one, need the beginning of their row."""

MOST_WORDS = 40
"""Words of a query that are looked for."""

MOST_PLACES = 50
"""Places of one word that are looked at, from the beginning."""

LONG_WORD = 6
"""Letters of a word from which other endings of it are found too."""

LONG_CHARS = 1_000
"""Characters of a text from which it is searched piece by piece: the vector of a whole one says little of its parts."""

PIECE_CHARS = 500
MOST_PIECES = 40

_GRAPHEME = regex.compile(r"\X")
_ALONE = r"[\p{GCB=Other}\p{GCB=LV}\p{GCB=LVT}]"
_LAST_PAIR = regex.compile(f"(?r)(?<={_ALONE}){_ALONE}")
"""Two characters that never join, such as letters, ideographs and syllables: a grapheme ends between them."""

_SENTENCE_END = regex.compile(r"[.!?;:]\s+|[。！？；]\s*|\s[-–—•|]\s")

Place = tuple[int, str]
"""Where a text has a word of the query."""


def head(text: str, limit: int) -> str:
    """Return the beginning of `text`, at most `limit` characters, without half a grapheme at its end."""
    if len(text) <= limit:
        return text
    if limit <= 0:
        return ""
    return text[: max((border for border in _borders(text, limit) if border <= limit), default=limit)]


def tail(text: str, limit: int) -> str:
    """Return the end of `text`, at most `limit` characters, without half a grapheme at its beginning."""
    if len(text) <= limit:
        return text
    cut = len(text) - limit
    return text[min((border for border in _borders(text, cut) if border >= cut), default=cut) :]


def ends(text: str, first: int, last: int) -> str:
    """Return `text` without the middle of a longer one: its first and last characters on lines of their own."""
    return text if len(text) <= first + last else f"{head(text, first)}\n{tail(text, last - 1)}"


def _borders(text: str, cut: int) -> Iterator[int]:
    """Yield the borders of graphemes near `cut`, from the last one before it that is seen at once."""
    before = text[max(0, cut - MOST_BEFORE) : cut]
    pair = _LAST_PAIR.search(before)
    start = cut - len(before) + (pair.start() if pair else 0)
    yield start
    for grapheme in _GRAPHEME.finditer(text[start : cut + LONGEST_GRAPHEME]):
        if grapheme.end() - grapheme.start() < LONGEST_GRAPHEME:
            yield start + grapheme.end()


def shortened(text: str, limit: int) -> str:
    """Return at most `limit` characters: the text, or its beginning and an ellipsis."""
    return text if len(text) <= limit else head(text, limit - 1).rstrip() + ELLIPSIS


def excerpt(text: str, limit: int, query: str) -> str:
    """Return at most `limit` characters of `text`: the part that says most of `query`, else its beginning."""
    start = _best_start(text, limit - 2, query) if len(text) > limit else 0
    if not start:
        return shortened(text, limit)
    if len(text) - start <= limit - 1:
        return ELLIPSIS + tail(text, limit - 1).lstrip()
    return ELLIPSIS + head(text[start:], limit - 2).rstrip() + ELLIPSIS


def says_more(text: str, said: str, query: str) -> bool:
    """Return whether a part of a long text has a word of `query` that the part which was `said` does not have."""
    now, then = fold(text), fold(said)
    return any(_has(now, word) and not _has(then, word) for word in _telling(query))


def _has(folded: str, word: str) -> bool:
    return next(_occurrences(folded, word), None) is not None


def _best_start(text: str, size: int, query: str) -> int:
    """Return where the best part begins: at a sentence, else at a word; 0 if the beginning is as good."""
    places = _places(fold(text), query)
    scores = dict(_scores(places, size))
    if not scores:
        return 0
    first = scores.pop(0, 0.0)
    best = max(scores, key=lambda start: (scores[start], -start), default=0)
    if scores.get(best, 0.0) <= first:
        return 0
    best = max(start for start in scores if best <= start < best + size and scores[start] >= scores[best])
    last = max(place for place, _ in places if place < best + size)
    return _border(text, best, earliest=max(0, last - size * 2 // 3))


def _places(folded: str, query: str) -> list[Place]:
    """Return where `folded` has words of the query, in order."""
    return sorted((place, word) for word in _telling(query) for place in _occurrences(folded, word))


def _telling(query: str) -> list[str]:
    """Return the words of a query that say what it is about."""
    words = [word for word in dict.fromkeys(tokens(query)) if word not in FUNCTION_WORDS][:MOST_WORDS]
    return [word for word in words if len(word) > 1 or not word.isascii()]


def _occurrences(folded: str, word: str) -> Iterator[int]:
    """Yield where `word` begins; scripts without spaces have no beginnings of words."""
    sought = word[: max(LONG_WORD - 1, len(word) - 2)]
    place = folded.find(sought)
    for _ in range(MOST_PLACES):
        if place < 0:
            return
        if place == 0 or not word.isascii() or not folded[place - 1].isalnum():
            yield place
        place = folded.find(sought, place + 1)


def _scores(places: list[Place], size: int) -> Iterator[tuple[int, float]]:
    """Yield how much of a query each part that starts at 0 or at a word has: every word once, a rare one more."""
    starts = [place for place, _ in places]
    counts = Counter(word for _, word in places)
    inside: Counter[str] = Counter()
    first = end = 0
    for start in (0, *dict.fromkeys(starts)):
        for _, word in places[end : (end := bisect_left(starts, start + size))]:
            inside[word] += 1
        for _, word in places[first : (first := bisect_left(starts, start))]:
            inside[word] -= 1
        yield start, sum(1.0 / counts[word] for word, number in inside.items() if number > 0)


def _border(text: str, start: int, earliest: int) -> int:
    """Return the beginning of the sentence at `start`, else of a word, but not before `earliest`."""
    sentences = [earliest + found.end() for found in _SENTENCE_END.finditer(text[earliest:start])]
    if sentences or earliest == 0:
        return sentences[-1] if sentences else 0
    space = text.find(" ", earliest, start)
    return space + 1 if space >= 0 else start


def pieces(text: str) -> tuple[str, ...]:
    """Split a long text at ends of sentences, else between words; return nothing for one that is not long."""
    if len(text) <= LONG_CHARS:
        return ()
    found: list[str] = []
    while text and len(found) < MOST_PIECES:
        end = _end_of_piece(text)
        found.append(text[:end].strip())
        text = text[end:]
    return tuple(piece for piece in found if piece)


def _end_of_piece(text: str) -> int:
    if len(text) <= PIECE_CHARS:
        return len(text)
    sentences = [found.end() for found in _SENTENCE_END.finditer(text, PIECE_CHARS // 2, PIECE_CHARS)]
    lines, space = text.rfind("\n", PIECE_CHARS // 2, PIECE_CHARS), text.rfind(" ", 1, PIECE_CHARS)
    best = max([*sentences, lines + 1])
    return best or (space if space > 0 else len(head(text, PIECE_CHARS)))
