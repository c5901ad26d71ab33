"""Regular expressions from settings, run by RE2: the time is linear in the length of the text, whatever they say."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

MOST_STATES = 3000
"""Maximum size of a compiled expression: time also grows with it. Large counts such as `.{0,900}` make it grow."""

MOST_CHARS = 4000
"""Maximum length of an expression."""

_UNSUPPORTED = {
    "invalid perl operator: (?=": "lookahead (?=...) is not supported",
    "invalid perl operator: (?!": "lookahead (?!...) is not supported",
    "invalid perl operator: (?<": "lookbehind (?<=...) or (?<!...) is not supported",
    "invalid perl operator: (?>": "atomic groups (?>...) are not supported",
    "invalid perl operator: (?(": "conditions (?(...)...) are not supported",
    "invalid perl operator: (?": "of the flags only i, m, s and U are supported",
    "invalid repetition size": "a count may be at most 1000, also when counts are nested",
    "bad repetition operator": "possessive or doubled repetitions are not supported",
    "pattern too large": "it is too large",
}
"""What the engine's errors mean, by their beginning; the first that fits."""


@dataclass(frozen=True, slots=True)
class BoundedPattern:
    """A compiled expression. Surrogates in a text, which the engine does not know, count as `?`."""

    _compiled: Any

    def is_in(self, text: str) -> bool:
        """Return whether it matches any part of `text`."""
        return self._compiled.search(_encodable(text)) is not None

    def covers(self, text: str) -> bool:
        """Return whether it matches all of `text`."""
        return self._compiled.fullmatch(_encodable(text)) is not None

    def replaced(self, text: str, by: str) -> str:
        """Return `text` with every match replaced by `by`."""
        return str(self._compiled.sub(lambda _: by, _encodable(text)))


@lru_cache(maxsize=256)
def bounded_pattern(pattern: str) -> BoundedPattern:
    """Compile a regular expression; raise `ValueError` that says what is wrong with it."""
    if len(pattern) > MOST_CHARS:
        raise ValueError(f"a regular expression is longer than {MOST_CHARS} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        found = re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"{pattern!r} is not a valid regular expression{_reason(error)}") from error
    if found.programsize > MOST_STATES:
        raise ValueError(f"{pattern!r} is not a valid regular expression: it is too large; use * instead of counts")
    return BoundedPattern(found)


def _reason(error: Exception) -> str:
    raw = error.args[0] if error.args else b""
    said = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    if said.startswith("invalid escape sequence"):
        sequence = said.rpartition(": ")[2]
        if sequence[1:].isdigit():
            return ": references to groups such as \\1 are not supported"
        return f": {sequence} is not supported" + ("; use \\z" if sequence == "\\Z" else "")
    return next((f": {words}" for start, words in _UNSUPPORTED.items() if said.startswith(start)), "")


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
