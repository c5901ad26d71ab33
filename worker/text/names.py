"""Names: the keys that memories are found by, the names that a message speaks, and whose names are two people's. Pure.

Everything compares folded text: lower case, compatibility forms, no accents.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from worker.domain.memory import Memory

MOST_TOKENS = 80
"""Tokens of a message that are looked at, from its end; names beyond them are found by the other legs."""

MOST_WORDS = 4
"""Words of the longest name that is looked for."""

LEAST_CHARS = 3
"""Shortest token that stands for a name by itself."""

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
    """`text` as names are compared."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(character for character in plain if not unicodedata.combining(character))


def name_keys(entities: Iterable[str]) -> list[str]:
    """What the names of a memory are found by: each whole name, and those of its words that can stand for it."""
    keys: dict[str, None] = {}
    for entity in entities:
        words = _TOKEN.findall(folded(entity))
        if words:
            keys |= dict.fromkeys([" ".join(words), *filter(_distinctive, words)])
    return list(keys)


def keyword_text(memory: Memory) -> str:
    """What a memory is found by in the keyword index: what it says, and the names that it is about."""
    return "\n".join([memory.content, *memory.entities])


def spoken_keys(text: str) -> tuple[str, ...]:
    """Every key of `name_keys` that `text` may speak: its words, and up to four of them in a row."""
    words = _TOKEN.findall(folded(text))[-MOST_TOKENS:]
    runs = (
        " ".join(words[start : start + size])
        for size in range(2, MOST_WORDS + 1)
        for start in range(len(words) - size + 1)
    )
    unspaced = (word[start : start + size] for word in words if _UNSPACED.search(word) for size, start in _cuts(word))
    return tuple(dict.fromkeys([*filter(_distinctive, words), *runs, *unspaced]))


def _cuts(word: str) -> list[tuple[int, int]]:
    """Sizes and starts of the parts of a run without spaces that may be a name."""
    return [(size, start) for size in range(2, 7) for start in range(min(len(word), 40) - size + 1)]


def _distinctive(word: str) -> bool:
    long_enough = len(word) >= (1 if _UNSPACED.search(word) else LEAST_CHARS)
    return long_enough and not word.isdigit() and word not in _PARTICLES


def full_names(text: str) -> frozenset[tuple[str, str]]:
    """First name and last name, folded, of every name of two or more capitalised words in `text`."""
    return frozenset((folded(first), folded(rest.split()[-1])) for first, rest in _FULL_NAME.findall(text))


def names_in(memory: Memory) -> frozenset[tuple[str, str]]:
    """The full names that a memory speaks or is about."""
    return full_names(memory.content).union(*map(full_names, memory.entities))


def is_namesake(memory: Memory, asked: frozenset[tuple[str, str]]) -> bool:
    """Whether `memory` is about a namesake of somebody in `asked`: the same first name, another last name.

    Only first names among the memory's own entities count; one that speaks of somebody asked for as well is none.
    """
    known = {folded(entity).split()[0] for entity in memory.entities if entity.split()}
    wanted = [(first, last) for first, last in asked if first in known]
    if not wanted:
        return False
    theirs, spoken = names_in(memory), set(_TOKEN.findall(folded(memory.content)))
    if any(last in spoken or (first, last) in theirs for first, last in wanted):
        return False
    return any(first == own for first, _ in wanted for own, _ in theirs)


def bridges(entity: str, contents: Sequence[str]) -> bool:
    """Whether two memories that both name `entity` may be taken to be about the same thing.

    A single word that stands before a last name in one of the texts is a bare first name, which several people have.
    """
    words = _TOKEN.findall(folded(entity))
    if len(words) != 1:
        return bool(words)
    return all(words[0] != first for content in contents for first, _ in full_names(content))
