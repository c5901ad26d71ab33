"""Features of how a message's words match a memory's, and of whether the memory holds what the message asks for. Pure.

Embedders and keyword search miss typos ("Reedis"), abbreviations ("GHA"), joined words ("ReactJS") and inflected forms.
Here two words are similar by the Dice coefficient of their character trigrams (Dice 1945).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from sys import intern

import numpy as np

from worker.domain.memory import MEMORIES_CACHED
from worker.text.abbreviations import ABBREVIATIONS
from worker.text.word_lists import CAPITALIZED_NAMES, FUNCTION_WORDS, WORDS_CACHED

from .columns import Column, column, same

SIMILAR = 0.5
"""Least similarity of two forms of one word."""

ABBREVIATED, INITIALS = 0.9, 0.8
"""How well a text holds a word that it has in full, and one that its words begin with."""

LEAST_PREFIX = 4
MOST_WORDS = 40
MOST_CHARS = 600
"""Most words and characters read of a message, from its start."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
NAME = re.compile(r"(?<![.!?:]\s)(?<!^)\b[A-ZÀ-ÞŁŚŻČŠŽ][\w'’-]+")
"""A capitalized word that does not begin a sentence."""


@dataclass(frozen=True, slots=True)
class Word:
    """A folded word with its character trigrams."""

    text: str
    grams: frozenset[str]


@dataclass(frozen=True, slots=True)
class Text:
    """The words of a text, each once, neighbouring words joined, and the initials of 2 to 4 words in a row.

    The latter two are texts with a space around each: thousands are cached, and sets would be six times as large.
    """

    words: tuple[Word, ...]
    texts: frozenset[str]
    joined: str
    initials: str
    names: frozenset[str]
    raw: str

    def knows(self, word: str) -> bool:
        """Return whether the text has a word, also as two."""
        return word in self.texts or f" {word} " in self.joined

    def has_initials(self, word: str) -> bool:
        return f" {word} " in self.initials


@lru_cache(maxsize=WORDS_CACHED)
def word_of(text: str) -> Word:
    padded = f" {text} "
    return Word(text, frozenset(intern(padded[place : place + 3]) for place in range(len(padded) - 2)))


def text_of(raw: str) -> Text:
    found = _WORD.findall(raw)
    parts = [part for word in found for part in (word, *_CAMEL.split(word))]
    folded = list(dict.fromkeys(intern(part.casefold()) for part in parts))
    whole = [word.casefold() for word in found]
    first = "".join(word[0] for word in whole)
    starts = [start for start, word in enumerate(whole) if word not in FUNCTION_WORDS]
    initials = {
        first[start : start + length] for length in (2, 3, 4) for start in starts if start + length <= len(whole)
    }
    joined = (one + other for one, other in pairwise(whole))
    names = frozenset(name.casefold() for name in NAME.findall(raw))
    return Text(tuple(map(word_of, folded)), frozenset(folded), _spaced(joined), _spaced(initials), names, raw)


@lru_cache(maxsize=MEMORIES_CACHED)
def _memory_text(content: str) -> Text:
    """Return the words of a memory, cached: a message is read only once."""
    return text_of(content)


def _spaced(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


def similarity(one: Word, other: Word) -> float:
    """Return 0 to 1: how alike two words are; a long common beginning counts as alike."""
    shared = 2.0 * len(one.grams & other.grams) / (len(one.grams) + len(other.grams))
    short, long = sorted((one.text, other.text), key=len)
    if len(short) >= LEAST_PREFIX and long.startswith(short):
        return max(shared, 0.9 if len(long) - len(short) <= 3 else 0.7)
    if len(short) >= LEAST_PREFIX + 1 and short in long:
        return max(shared, 0.7)
    return shared


def _held(words: Sequence[Word], notes: Sequence[Text]) -> tuple[Column, Column]:
    """Return how well each note holds each word, 0 to 1, and whether other than literally; shape (notes, words)."""
    near = _near(words, notes)
    found = np.zeros((len(notes), max(1, len(words))), dtype=np.float32)
    for place, word in enumerate(words):
        full = ABBREVIATIONS.get(word.text, "").split()
        found[:, place] = [_share(word.text, full, note, near[place]) for note in notes]
    return found, ((found > 0.0) & (found < 1.0)).astype(np.float32)


def _share(word: str, full: Sequence[str], note: Text, near: Mapping[str, float]) -> float:
    """Return how well a note holds a word, 0 to 1; `full` is what it is short for, `near` how alike other words are."""
    if note.knows(word):
        return 1.0
    if full and any(map(note.knows, full)):
        return ABBREVIATED
    if 2 <= len(word) <= 4 and note.has_initials(word):
        return INITIALS
    return max((value for text, value in near.items() if text in note.texts), default=0.0) if near else 0.0


def _near(words: Sequence[Word], notes: Sequence[Text]) -> list[dict[str, float]]:
    """Return per word the words of all notes that are similar to it; only words that share a trigram can be."""
    others = {other.text: other for note in notes for other in note.words}
    found = []
    for word in words:
        values = ((text, similarity(word, other)) for text, other in others.items() if word.grams & other.grams)
        found.append({text: value for text, value in values if value >= SIMILAR})
    return found


def matches(message: str, contents: Sequence[str]) -> dict[str, Column]:
    """Return columns by name, one value per memory."""
    asked = text_of(message[:MOST_CHARS])
    empty = FUNCTION_WORDS - (asked.names & CAPITALIZED_NAMES)
    words = [word for word in asked.words if word.text not in empty and len(word.text) > 1][:MOST_WORDS]
    notes = [_memory_text(content) for content in contents]
    found, loose = _held(words, notes)
    holders = (found >= SIMILAR).sum(axis=0)
    weights = np.log(1.0 + len(notes) / (1.0 + holders)).astype(np.float32) + np.float32(0.2)
    cover = (found * weights).sum(axis=1) / (float(weights.sum()) + 1e-6)
    ranks = np.empty(len(notes), dtype=np.float32)
    ranks[np.argsort(-cover, kind="stable")] = np.arange(len(notes), dtype=np.float32)
    return {
        "w_cover": cover,
        "w_mean": found.mean(axis=1),
        "w_best": (found * weights).max(axis=1),
        "w_loose": (found * loose).max(axis=1),
        "w_count": (found >= SIMILAR).sum(axis=1).astype(np.float32),
        "w_names_missing": column(sum(not note.knows(name) for name in asked.names) for note in notes),
        "w_names_extra": column(sum(not asked.knows(name) for name in note.names) for note in notes),
        "w_words": same(len(words), len(notes)),
        "w_rank": ranks,
        "w_gap": cover - float(cover.max()),
    }
