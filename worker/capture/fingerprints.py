"""Fingerprints of what was rejected or deleted, so that the same is recognized without keeping its text. Pure."""

import hashlib
import hmac
from collections.abc import Iterable

from worker.domain.capture import Refusal
from worker.domain.memory import Memory
from worker.text.word_lists import FUNCTION_WORDS
from worker.text.wording import Marks, marks, stem

ALIKE = 0.75
"""Share of common content words from which two texts with the same numbers and negation say the same."""

FEWEST_WORDS = 3
"""Content words of a text that can be recognized in other words."""


def refusal_of(memory: Memory, salt: str, *, lasting: bool) -> Refusal:
    """Return the fingerprint of a memory that must not come back."""
    found = marks(memory.content)
    return Refusal(
        exact=keyed_hash(salt, plain(memory.content)),
        hard=keyed_hash(salt, *sorted(found.figures), str(found.negated)),
        words=frozenset(keyed_hash(salt, word)[:12] for word in stems(found)),
        owner=keyed_hash(salt, memory.scope.user or ""),
        lasting=lasting,
    )


def is_refused(memory: Memory, refusals: Iterable[Refusal], salt: str, *, only_lasting: bool) -> bool:
    """Return whether the memory says what was refused, in the same words or in others."""
    known = [one for one in refusals if one.lasting or not only_lasting]
    if not known:
        return False
    new = refusal_of(memory, salt, lasting=True)
    return any(one.owner == new.owner and _same(one, new) for one in known)


def _same(one: Refusal, other: Refusal) -> bool:
    if one.exact == other.exact:
        return True
    if one.hard != other.hard or min(len(one.words), len(other.words)) < FEWEST_WORDS:
        return False
    return are_alike(one.words, other.words)


def are_alike(some: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether most content words of two texts, or their fingerprints, are the same."""
    return len(some & others) >= ALIKE * len(some | others)


def stems(found: Marks) -> frozenset[str]:
    """Return the content words of a text without their endings."""
    return frozenset(map(stem, found.words - FUNCTION_WORDS))


def plain(text: str) -> str:
    """Return a text without what two spellings of it may differ in: case, spaces, and the sign at the end."""
    return " ".join(text.casefold().split()).strip(".!?。 ")


def keyed_hash(salt: str, *parts: str) -> str:
    """Return a hash of the parts, from which they cannot be read."""
    return hmac.new(salt.encode(), "\0".join(parts).encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:24]
