"""What a request asks: whether anything is searched for at all, and with which text. Pure, but for `prepare`."""

from collections.abc import Sequence

from worker.domain.kinds import Language
from worker.text.lexicon import lexicon

from . import time_expressions as timespan
from .focus import Focus, focus, focused_query
from .skipping import effective_mode, skip_reason

__all__ = ["Focus", "effective_mode", "focus", "focused_query", "prepare", "skip_reason"]


def prepare(languages: Sequence[Language] = tuple(Language)) -> None:
    """Read the phrases of `languages`, some tenths of a second's work, so that no request has to wait for it."""
    lexicon(tuple(languages))
    timespan.prepare(languages)
