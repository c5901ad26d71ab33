"""Leave out what needs no model: requests that are kept already, small talk, commands and turns of few words. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from worker.domain.capture import WindowTurn
from worker.domain.kinds import Language
from worker.query.small_talk import small_talk
from worker.text.lexicon import is_unspaced, lexicon, tokens

from .explicit import explicit_requests
from .window import Window

FEWEST_WORDS = 4
"""Words of a turn that may say something to keep; two characters of a script without spaces count as one."""


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
    words = sum(0.5 if is_unspaced(word) else 1.0 for word in tokens(text))
    return words >= FEWEST_WORDS and not text.startswith("/") and not small_talk(text, lexicon(tuple(languages)))
