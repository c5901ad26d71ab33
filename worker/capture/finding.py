"""Turn what users asked to be remembered into changes, or say why not. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from worker.domain.capture import CaptureSource, Change, ChangeKind, Drop, DropReason, WindowTurn
from worker.domain.errors import MemoryRejected
from worker.domain.evidence import MOST_SPAN, Evidence
from worker.domain.kinds import Language
from worker.domain.memory import MemoryType
from worker.text.excerpts import shortened
from worker.text.masking import holds_secret, mask_secrets
from worker.transfer.entries import memory_from

from .dates import named_day
from .explicit import ExplicitRequest, explicit_requests
from .modality import is_made_up, not_lasting
from .window import USER, Window

SOURCE = "capture"


@dataclass(frozen=True, slots=True)
class Frame:
    """What all changes of a capture have in common."""

    capture: str
    source: CaptureSource
    now: datetime
    languages: tuple[Language, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What a window says: changes to check against the store, and what was left out."""

    changes: tuple[Change, ...] = ()
    drops: tuple[Drop, ...] = ()


def find_explicit(window: Window, frame: Frame) -> Found:
    """Return what the user's turns ask to remember, exactly as said."""
    changes: list[Change] = []
    drops: list[Drop] = []
    made_up = False
    for turn in window.turns:
        made_up = made_up or (turn.role == USER and is_made_up(turn.text, frame.languages))
        if not turn.evidence:
            continue
        for request in explicit_requests(turn.text, frame.languages):
            reason = DropReason.NOT_A_FACT if made_up else _refusal(request, frame.languages)
            if reason is not None:
                drops.append(drop(reason, request.content))
            else:
                _add(changes, drops, request, turn, frame)
    return Found(tuple(changes), tuple(drops))


def drop(reason: DropReason, text: str, of: str | None = None) -> Drop:
    """Return a record of what was left out, without secrets."""
    return Drop(reason=reason, text=shortened(mask_secrets(text), MOST_SPAN), of=of)


def _refusal(request: ExplicitRequest, languages: Sequence[Language]) -> DropReason | None:
    if holds_secret(request.sentence):
        return DropReason.SECRET
    return not_lasting(request.sentence, languages)


def _add(changes: list[Change], drops: list[Drop], request: ExplicitRequest, turn: WindowTurn, frame: Frame) -> None:
    kind = MemoryType.PREFERENCE if request.standing else MemoryType.FACT
    day = None if request.standing else named_day(request.content, turn.at, frame.languages)
    fields = {"content": request.content, "type": kind, "occurred_at": day}
    try:
        changes.append(
            Change(
                kind=ChangeKind.ADD, memory=memory_from(fields | common_fields([turn], request.sentence, frame), None)
            )
        )
    except MemoryRejected:
        drops.append(drop(DropReason.MALFORMED, request.content))


def common_fields(turns: Sequence[WindowTurn], span: str, frame: Frame, **evidence: Any) -> dict[str, Any]:
    """Return the fields of a memory that say whose it is, when it was said, and what it rests on."""
    said = next((turn.at for turn in reversed(turns) if turn.at is not None), None)
    source = frame.source
    return {
        "created_at": said or frame.now,
        "scope": {"user": source.user} if source.user else {},
        "channel": source.channel,
        "source": SOURCE,
        "evidence": Evidence(
            text=shortened(span, MOST_SPAN),
            turns=tuple(turn.id for turn in turns),
            said_at=said,
            session=source.session_id,
            host=source.host,
            capture=frame.capture,
            **evidence,
        ),
    }
