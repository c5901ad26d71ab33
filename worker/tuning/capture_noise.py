"""Mix chatter into labelled conversations, to see that it leads to no more memories. Pure.

The chatter is what people say in the conversations with nothing to keep, in the same language if there are any. Stories
are left out, as only a whole one is known for one.
"""

import zlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import count, cycle, islice

from hooks.contract.capture import ConversationTurn
from worker.capture.modality import is_made_up
from worker.domain.errors import SettingsError
from worker.domain.kinds import Language

from .capture_cases import CaptureCase, CaseKind, LabelledOperation

USER = "user"


def with_chatter(case: CaptureCase, others: Sequence[CaptureCase], times: int) -> CaptureCase:
    """Return a case with `times` as many turns of chatter from other cases. Raise `SettingsError` if there are none."""
    idle = [other for other in others if _is_chatter(other) and other.id != case.id]
    own = [other for other in idle if other.language == case.language]
    pool = [turn for other in own or idle for turn in other.turns]
    if not pool:
        raise SettingsError("chatter is taken from conversations of kind `nothing` without memories; there are none")
    chatter = islice(cycle(pool), zlib.crc32(case.id.encode()) % len(pool), None)
    turns: list[ConversationTurn] = []
    places: list[int] = []
    for turn in case.turns:
        turns.extend(_before(turn, chatter, times, start=len(turns)))
        places.append(len(turns))
        turns.append(turn)
    moved = {name: tuple(_moved(one, places) for one in getattr(case, name)) for name in ("must", "may")}
    return case.model_copy(update={"id": f"{case.id}-noisy", "turns": tuple(turns), **moved})


def _is_chatter(case: CaptureCase) -> bool:
    """Return whether nothing is to be kept of any part of a case: it needs no store, and tells no story."""
    told = any(is_made_up(turn.text, tuple(Language)) for turn in case.turns)
    return case.kind is CaseKind.NOTHING and not (case.memories or case.shown or told)


def _before(
    turn: ConversationTurn, chatter: Iterator[ConversationTurn], times: int, *, start: int
) -> Iterator[ConversationTurn]:
    """Return chatter at the time of a turn, with ids of its own as the same may be said again."""
    for place, said in zip(count(start), islice(chatter, times), strict=False):
        at = turn.at - timedelta(seconds=start + times - place) if turn.at is not None else None
        yield said.model_copy(update={"id": f"chatter-{place}", "at": at, "context": turn.context})


def _moved(label: LabelledOperation, places: Sequence[int]) -> LabelledOperation:
    return label.model_copy(update={"turns": tuple(places[turn] for turn in label.turns)})
