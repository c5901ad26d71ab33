"""Masking of secrets in text.

A secret is recognized by its form (`token_rules`) or by what is said of it (`assigned_secrets`). Invisible characters
inside a secret do not hide it.
"""

from collections.abc import Iterator
from functools import lru_cache

from .assigned_secrets import assigned_spans
from .invisible import visible_positions, without_invisible
from .token_rules import Span, token_spans

MASK = "[masked]"

_ASCII_OF_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
"""Full-width forms of ASCII characters."""


@lru_cache(maxsize=4096)
def mask_secrets(text: str) -> str:
    """Replace every secret in `text` by `[masked]`."""
    plain = without_invisible(text).encode("utf-8", "replace").decode("utf-8").translate(_ASCII_OF_WIDE)
    spans = list(_merged([*token_spans(plain), *assigned_spans(plain)]))
    if not spans:
        return text
    if len(plain) != len(text):
        places = visible_positions(text)
        spans = [(places[start], places[end - 1] + 1) for start, end in spans]
    return "".join(_parts(text, spans))


def holds_secret(text: str) -> bool:
    return mask_secrets(text) != text


def _parts(text: str, spans: list[Span]) -> Iterator[str]:
    done = 0
    for start, end in spans:
        yield text[done:start]
        yield MASK
        done = end
    yield text[done:]


def _merged(spans: list[Span]) -> Iterator[Span]:
    """Join overlapping spans, and leave out empty ones."""
    current: Span | None = None
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if current and start <= current[1]:
            current = (current[0], max(current[1], end))
        else:
            if current:
                yield current
            current = (start, end)
    if current:
        yield current
