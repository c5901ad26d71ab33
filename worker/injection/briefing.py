"""The briefing that opens a session: who and what for, what is still to do, and what was decided lately."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from worker.domain.kinds import SortKey
from worker.domain.ledger import LedgerView
from worker.domain.memory import Candidate, MemoryType, Recalled
from worker.recall.recall import Leading

from .turn import Turn, text_of

MOST_WORDS = 500
WORD_CHARS = 12
"""Characters of a word; a longer run counts as several, since not every script has spaces."""

LEADING = (
    Leading(MemoryType.IDENTITY, SortKey.IMPORTANCE, 6),
    Leading(MemoryType.GOAL, SortKey.IMPORTANCE, 6),
    Leading(MemoryType.TODO, SortKey.RECENT, 8),
    Leading(MemoryType.DECISION, SortKey.RECENT, 8),
)
"""What a briefing is made of, in this order."""

SUBAGENT = "subagent"


def opens_session(turn: Turn, view: LedgerView) -> bool:
    """Return whether the turn gets a briefing: the first one of an agent that was shown nothing; no subagent does."""
    return turn.config.briefing and view.turn == 1 and not view.shown and turn.request.source != SUBAGENT


def with_briefing(recalled: Recalled, leading: Sequence[Candidate], turn: Turn) -> Recalled:
    """Return what was recalled, with as much of `leading` in front as a briefing has room for."""
    briefing = tuple(_fitting(leading, turn))
    known = {candidate.memory.id for candidate in briefing}
    others = (candidate for candidate in recalled.candidates if candidate.memory.id not in known)
    return replace(recalled, candidates=(*briefing, *others))


def _fitting(leading: Sequence[Candidate], turn: Turn) -> Iterator[Candidate]:
    left = MOST_WORDS
    for candidate in leading:
        words = _words(text_of(candidate.memory, turn))
        if words <= left:
            left -= words
            yield candidate


def _words(text: str) -> int:
    return sum(-(-len(word) // WORD_CHARS) for word in text.split())
