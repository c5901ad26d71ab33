"""Leave out what needs no model: requests that are kept already, small talk, short questions and commands. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from worker.domain.capture import WindowTurn
from worker.domain.kinds import Language
from worker.query.small_talk import small_talk
from worker.text.lexicon import lexicon, tokens

from .explicit import explicit_requests
from .window import Window

FEWEST_WORDS = 4
"""Words of a turn that may say something to keep."""

FEWEST_UNSPACED = 8
"""Characters of a turn in a script without spaces that may say something to keep."""


def without_requests(window: Window, languages: Sequence[Language]) -> Window:
    """Return the window without the sentences that ask to remember something."""
    return Window(tuple(_without(turn, languages) if turn.evidence else turn for turn in window.turns))


def _without(turn: WindowTurn, languages: Sequence[Language]) -> WindowTurn:
    text = turn.text
    for request in explicit_requests(turn.text, languages):
        text = text.replace(request.sentence, " ", 1)
    return turn if text == turn.text else replace(turn, text=text.strip())


def is_worth_reading(window: Window, languages: Sequence[Language]) -> bool:
    """Return whether any turn of the user may say something to keep."""
    return any(_may_say_something(turn.text, languages) for turn in window.evidence)


def _may_say_something(text: str, languages: Sequence[Language]) -> bool:
    words = tokens(text)
    least = FEWEST_WORDS if text.isascii() or len(words) == len(text.split()) else FEWEST_UNSPACED
    if len(words) < min(least, FEWEST_UNSPACED) or text.startswith("/"):
        return False
    return not small_talk(text, lexicon(tuple(languages)))
