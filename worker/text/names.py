"""Names in memories and messages: index keys, full names, and namesakes.

Texts are compared in lower case, in compatibility form and without accents.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from worker.domain.memory import MEMORIES_CACHED, Memory

MOST_TOKENS = 80
"""Words searched for names, from the end of a message."""

MOST_WORDS = 4
"""Maximum number of words in a name."""

LEAST_CHARS = 3
"""Minimum length of a single word used as a key."""

_TOKEN = re.compile(r"\w+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]")
_PARTICLE_WORDS = """
and the for with from van von der den del della des les las los dos das und mit pour avec para com por con
"""
_PARTICLES = frozenset(_PARTICLE_WORDS.split())

_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][^\W\d_]+(?:-[^\W\d_]+)*"
_FULL_NAME = re.compile(
    rf"(?<![\w'’-])({_CAPITAL})((?:\s+(?:(?:van|von|de|der|den|da|di|du|la|le)\s+)*{_CAPITAL})+)(?!\w)"
)


@lru_cache(maxsize=8192)
def folded(text: str) -> str:
    """Return `text` in the form used for comparing names."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(character for character in plain if not unicodedata.combining(character))


def name_keys(entities: Iterable[str]) -> list[str]:
    """Return the index keys of a memory's names: each full name and its distinctive words."""
    keys: dict[str, None] = {}
    for entity in entities:
        words = _TOKEN.findall(folded(entity))
        if words:
            keys |= dict.fromkeys([" ".join(words), *filter(_distinctive, words)])
    return list(keys)


def named_text(memory: Memory) -> str:
    """Return the content and names of a memory."""
    return "\n".join([memory.content, *memory.entities])


def keyword_text(memory: Memory) -> str:
    """Return the text of a memory for the keyword index: its content, context, names and cues."""
    return "\n".join([passage_text(memory), *memory.entities, *(cue.text for cue in memory.cues)])


def passage_text(memory: Memory) -> str:
    """Return the content after its context, as searches compare it with a message."""
    return f"{memory.context}: {memory.content}" if memory.context else memory.content


def spoken_keys(text: str) -> tuple[str, ...]:
    """Return every key that `text` may contain: its words, and sequences of up to four words."""
    words = _TOKEN.findall(folded(text))[-MOST_TOKENS:]
    runs = (
        " ".join(words[start : start + size])
        for size in range(2, MOST_WORDS + 1)
        for start in range(len(words) - size + 1)
    )
    unspaced = (word[start : start + size] for word in words if _UNSPACED.search(word) for size, start in _cuts(word))
    return tuple(dict.fromkeys([*filter(_distinctive, words), *runs, *unspaced]))


def _cuts(word: str) -> list[tuple[int, int]]:
    """Return sizes and starts of possible names in text without spaces."""
    return [(size, start) for size in range(2, 7) for start in range(min(len(word), 40) - size + 1)]


def _distinctive(word: str) -> bool:
    long_enough = len(word) >= (1 if _UNSPACED.search(word) else LEAST_CHARS)
    return long_enough and not word.isdigit() and word not in _PARTICLES


@lru_cache(maxsize=MEMORIES_CACHED)
def full_names(text: str) -> frozenset[tuple[str, str]]:
    """Return folded first and last names of all names of two or more capitalized words in `text`."""
    return frozenset((folded(first), folded(rest.split()[-1])) for first, rest in _FULL_NAME.findall(text))


def names_in(memory: Memory) -> frozenset[tuple[str, str]]:
    """Return the full names in a memory's content and entities."""
    return full_names(memory.content).union(*map(full_names, memory.entities))


def is_namesake(memory: Memory, asked: frozenset[tuple[str, str]]) -> bool:
    """Return whether `memory` is about a namesake of someone in `asked`: same first name, different last name.

    Only first names among the memory's entities count. A memory that also mentions someone in `asked` is no namesake.
    """
    if not asked:
        return False
    known = {folded(entity).split()[0] for entity in memory.entities if entity.split()}
    wanted = [(first, last) for first, last in asked if first in known]
    if not wanted:
        return False
    theirs, spoken = names_in(memory), set(_TOKEN.findall(folded(memory.content)))
    if any(last in spoken or (first, last) in theirs for first, last in wanted):
        return False
    return any(first == own for first, _ in wanted for own, _ in theirs)


def bridges(entity: str, contents: Sequence[str]) -> bool:
    """Return whether memories that share the name `entity` can be assumed to mean the same thing.

    A first name alone, recognized by a last name after it in one of the texts, is ambiguous.
    """
    words = _TOKEN.findall(folded(entity))
    if len(words) != 1:
        return bool(words)
    return all(words[0] != first for content in contents for first, _ in full_names(content))
