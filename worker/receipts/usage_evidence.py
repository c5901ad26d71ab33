"""Detect whether an answer used a memory. Pure.

A mark is a number, name or word in the memory's text that the message does not contain. Marks have weights. A memory
was used if its marks in the answer weigh at least `LEAST_WEIGHT` and `LEAST_SHARE` of all its marks, or at least
`MOST_SHARE` of them. Chinese, Japanese and Korean have no spaces between words, so pairs of characters replace words.
Meaning is ignored: an answer that contradicts a memory counts as having used it.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from worker.text.word_lists import FUNCTION_WORDS, NUMBERS
from worker.text.wording import Marks, marks

LEAST_WEIGHT = 2.0
LEAST_SHARE = 0.25
MOST_SHARE = 0.5

FIGURE, SMALL_FIGURE, NAME, WORD, PAIR = 2.0, 1.0, 2.0, 1.0, 0.5
"""Weights of a number or date, a one-digit number, a name, a word, and a pair of CJK characters."""

LEAST_LETTERS = 4
"""Minimum letters of a word that counts."""

MOST_CHARS = 60_000
"""Maximum characters of an answer; the middle of a longer one is ignored."""

PIECE = 1_800
"""Characters to analyse at a time; slightly below the limit of `wording.marks`."""

_LIST_NUMBER = re.compile(r"(?m)^[ \t>*-]*\d{1,2}[.)][ \t]")
_RUN = re.compile(r"[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]{2,}")
_KANA = re.compile(r"[\u3041-\u309f]+")
_CJK = re.compile(r"[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Whether a memory was used, the marks found, and their share of the weight of all its marks."""

    used: bool
    marks: tuple[str, ...] = ()
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class AnswerText:
    """The comparable parts of a text."""

    figures: frozenset[str]
    names: frozenset[str]
    words: frozenset[str]
    pairs: frozenset[str]


def used_memories(texts: Mapping[str, str], answer: str, message: str) -> dict[str, Evidence]:
    """Return for each memory id in `texts` whether the answer to `message` used it."""
    answered, asked = analysed(_LIST_NUMBER.sub(" ", answer)), analysed(message)
    return {key: evidence_of(analysed(text), answered, asked) for key, text in texts.items()}


def evidence_of(memory: AnswerText, answer: AnswerText, message: AnswerText) -> Evidence:
    """Find the marks of a memory that are in an answer but not in its message."""
    given = _weights(memory, message)
    found = {mark: weight for mark, weight in given.items() if _is_in(mark, answer)}
    whole, weight = sum(given.values()), sum(found.values())
    share = weight / whole if whole else 0.0
    used = (share >= LEAST_SHARE and weight >= LEAST_WEIGHT) or share >= MOST_SHARE
    return Evidence(used, tuple(sorted(found)), round(share, 3))


def _weights(memory: AnswerText, message: AnswerText) -> dict[str, float]:
    """Return the weights of the marks that a memory adds to a message."""
    kinds = ((memory.pairs, PAIR), (memory.words, WORD), (memory.names, NAME))
    weights = {mark: weight for found, weight in kinds for mark in found}
    weights |= {figure: SMALL_FIGURE if len(figure) == 1 else FIGURE for figure in memory.figures}
    return {mark: weight for mark, weight in weights.items() if not _is_in(mark, message)}


def _is_in(mark: str, text: AnswerText) -> bool:
    """Return whether a text contains a mark; words may have another ending."""
    if mark in text.figures or mark in text.pairs or mark in text.words or mark in text.names:
        return True
    if len(mark) < LEAST_LETTERS or not mark.isalpha() or _CJK.search(mark):
        return False
    stem = mark[: max(LEAST_LETTERS, len(mark) - 2)]
    return any(word.startswith(stem) for word in text.words)


def analysed(text: str) -> AnswerText:
    """Extract figures, names, words and pairs from a text."""
    if len(text) > MOST_CHARS:
        text = text[: MOST_CHARS // 2] + " " + text[-MOST_CHARS // 2 :]
    parts = [_marks(piece) for piece in _pieces(text)]
    return AnswerText(
        figures=frozenset().union(*(part.figures for part in parts)),
        names=frozenset().union(*(part.names for part in parts)),
        words=frozenset().union(*(_words(part.words) for part in parts)),
        pairs=_pairs(unicodedata.normalize("NFKC", text)),
    )


def _marks(text: str) -> Marks:
    """Call `wording.marks` without its cache, which would keep the texts of answers."""
    return marks.__wrapped__(text)


def _pieces(text: str) -> Iterable[str]:
    """Split a text into pieces, between words if possible."""
    start = 0
    while start < len(text):
        end = min(len(text), start + PIECE)
        gap = text.rfind(" ", start + 1, end) if end < len(text) else -1
        end = gap if gap > start else end
        yield text[start:end]
        start = end


def _words(words: Iterable[str]) -> frozenset[str]:
    return frozenset(
        word
        for word in words
        if len(word) >= LEAST_LETTERS and word not in FUNCTION_WORDS and word not in NUMBERS and not _CJK.search(word)
    )


def _pairs(text: str) -> frozenset[str]:
    """Return pairs of adjacent CJK characters, except hiragana pairs, which are mostly grammar."""
    pairs = {run[at : at + 2] for run in _RUN.findall(text) for at in range(len(run) - 1)}
    return frozenset(pair for pair in pairs if not _KANA.fullmatch(pair))
