"""Check what a model read in a window, before anything of it is written. Pure.

The model names turns; whether they say what it wrote is decided here: every number, name and negation of the text must
occur in the cited turns of the user, and the words must be meant as a fact.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from worker.domain.capture import CaptureSource, Change, ChangeKind, Drop, DropReason, WindowTurn
from worker.domain.cues import Cue, CueOrigin
from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory, MemoryType
from worker.text.lexicon import fold
from worker.text.masking import holds_secret
from worker.text.word_lists import FUNCTION_WORDS
from worker.text.wording import Marks, marks, stem
from worker.transfer.entries import memory_from

from .dates import named_day
from .explicit import sentences
from .finding import Found, Frame, common_fields, drop
from .fingerprints import stems
from .modality import is_made_up, not_a_fact
from .reading import RawOperation
from .window import USER, Window

MOST_OPERATIONS = 3
COVERED = 0.6
"""Least share of a text's content words that the cited turns have."""

_OF_USER = """
user users nutzer nutzers nutzerin benutzer benutzerin utilisateur utilisatrice usuario usuaria utente usuário usuária
utilizador his her their they speaker
"""
OF_USER = frozenset(_OF_USER.split())
"""Words for whoever speaks, which only the model uses."""

_TYPES = {"rule": MemoryType.PREFERENCE}
_CLAUSE = re.compile(r"[,;:–—]\s+|，|、")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a model read, and what it was shown: turns and candidates by number, from 1."""

    window: Window
    candidates: tuple[Memory, ...]
    operations: tuple[RawOperation, ...]
    markers: tuple[str, ...]
    model: str
    prompt: str


def check_reading(reading: Reading, frame: Frame) -> Found:
    """Return the changes that the turns support, and why the others are dropped."""
    changes: list[Change] = []
    drops = [drop(DropReason.OVER_LIMIT, one.text) for one in reading.operations[MOST_OPERATIONS:]]
    targets = Counter(one.target for one in reading.operations[:MOST_OPERATIONS] if one.kind != ChangeKind.ADD)
    for one in reading.operations[:MOST_OPERATIONS]:
        twice = one.kind != ChangeKind.ADD and targets[one.target] > 1
        found = drop(DropReason.BAD_TARGET, one.text) if twice else _checked(one, reading, frame)
        if isinstance(found, Drop):
            drops.append(found)
        else:
            changes.append(found)
    return Found(tuple(changes), tuple(drops))


def _checked(one: RawOperation, reading: Reading, frame: Frame) -> Change | Drop:
    cited = _cited(one, reading.window)
    if not cited:
        return drop(DropReason.NOT_SAID, one.text)
    target = _target(one, reading.candidates)
    span, day = best_sentence(one.text, cited), _day(one, cited, frame)
    reason = (
        _wording_fault(one, reading.markers)
        or _target_fault(one, target, frame)
        or support_fault(one.text, cited, span, target.content if target and one.kind == ChangeKind.UPDATE else "", day)
        or (DropReason.NOT_A_FACT if _is_in_a_story(reading.window, cited, frame) else None)
        or not_a_fact(span, frame.languages)
        or (DropReason.SECRET if holds_secret(f"{one.text}\n{span}") else None)
    )
    if reason is not None:
        return drop(reason, one.text)
    try:
        return _change(one, cited, span, day, target, reading, frame)
    except MemoryRejected:
        return drop(DropReason.MALFORMED, one.text)


def _change(
    one: RawOperation,
    cited: Sequence[WindowTurn],
    span: str,
    day: datetime | None,
    target: Memory | None,
    reading: Reading,
    frame: Frame,
) -> Change:
    fields = common_fields(cited, span, frame, model=reading.model, prompt=reading.prompt)
    if one.about == "project" and frame.source.project:
        fields["scope"] = {**fields["scope"], "project": frame.source.project}
    if target is not None and one.kind != ChangeKind.ADD:
        fields["scope"], fields["channel"] = target.scope.model_dump(exclude_none=True), target.channel
    fields |= {
        "content": one.text,
        "type": _type(one.type),
        "occurred_at": day,
        "cues": tuple(Cue(text=text, origin=CueOrigin.MODEL, prompt=reading.prompt) for text in one.cues),
    }
    kind = ChangeKind(one.kind)
    return Change(kind=kind, memory=memory_from(fields, None), target=target.id if target and kind != "add" else None)


def _cited(one: RawOperation, window: Window) -> list[WindowTurn]:
    """Return the user's new turns that are cited; none if anything else is cited alone."""
    found = (window.turns[number - 1] for number in one.turns if 0 < number <= len(window.turns))
    return list(dict.fromkeys(turn for turn in found if turn.evidence))


def _is_in_a_story(window: Window, cited: Sequence[WindowTurn], frame: Frame) -> bool:
    """Return whether a story or game began in the cited turns or before them."""
    last = max(window.turns.index(turn) for turn in cited)
    return any(turn.role == USER and is_made_up(turn.text, frame.languages) for turn in window.turns[: last + 1])


def _target(one: RawOperation, candidates: Sequence[Memory]) -> Memory | None:
    return candidates[one.target - 1] if one.target is not None and 0 < one.target <= len(candidates) else None


def _wording_fault(one: RawOperation, markers: Sequence[str]) -> DropReason | None:
    if one.kind not in set(ChangeKind):
        return DropReason.MALFORMED
    said = fold(one.text)
    return DropReason.EXAMPLE_NAME if any(fold(marker) in said for marker in markers) else None


def _target_fault(one: RawOperation, target: Memory | None, frame: Frame) -> DropReason | None:
    """Return why the memory that a change is about must not be replaced: it is another's, or about something else."""
    if one.kind == ChangeKind.ADD:
        return None
    if target is None or not _has_same_owner(target, frame.source):
        return DropReason.BAD_TARGET
    new, old = marks(one.text), marks(target.content)
    if not _CJK.search(one.text) and not stems(new) & stems(old):
        return DropReason.BAD_TARGET
    if one.kind == ChangeKind.UPDATE and not (old.figures <= new.figures and old.names <= new.words):
        return DropReason.BAD_TARGET
    return None


def _has_same_owner(memory: Memory, source: CaptureSource) -> bool:
    """Return whether a memory is the user's, or the channel's if there is no user, as what is captured will be."""
    return memory.scope.user == source.user and (source.user is not None or memory.channel == source.channel)


def support_fault(
    text: str, cited: Sequence[WindowTurn], span: str, known: str = "", day: datetime | None = None
) -> DropReason | None:
    """Return whether the text says what its turns do not: a number, a name, a negation, or too many other words.

    The `day` that the turns name may be written out.
    """
    said = "\n".join([*(turn.text for turn in cited), known])
    new, whole, here = marks(text), marks(said), marks(span)
    said_day = marks(f"{day:%Y-%m-%d}").figures | {f"m{day.month}", f"d{day.isoweekday()}"} if day else frozenset()
    if not new.figures <= whole.figures | said_day or (new.negated and not (here.negated or marks(known).negated)):
        return DropReason.UNSUPPORTED
    if marks(_best_clause(new, span)).negated and not new.negated and not known:
        return DropReason.UNSUPPORTED
    if _CJK.search(text):
        return None if _shared_pairs(text, said) >= COVERED else DropReason.UNSUPPORTED
    there = whole.words | stems(whole)
    names = {name for name in new.names | new.leading if name not in OF_USER}
    strange = [name for name in names & new.names if not _occurs(name, there)]
    return DropReason.UNSUPPORTED if strange or _coverage(new, there) < COVERED else None


def _best_clause(new: Marks, span: str) -> str:
    """Return the part between commas that has most of the words: "lives in Bern, not in Zürich" denies no Bern."""
    wanted = stems(new)
    return max(_CLAUSE.split(span), key=lambda clause: len(wanted & stems(marks(clause))))


def _coverage(new: Marks, there: frozenset[str]) -> float:
    words = [word for word in new.words - FUNCTION_WORDS if word not in OF_USER and len(word) > 1]
    return sum(_occurs(word, there) for word in words) / len(words) if words else 0.0


def _occurs(word: str, there: frozenset[str]) -> bool:
    return word in there or stem(word) in there


def _shared_pairs(text: str, said: str) -> float:
    """Return the share of a text's pairs of characters that were said, for scripts without spaces."""
    plain, there = "".join(text.split()), "".join(said.split())
    pairs = [plain[place : place + 2] for place in range(len(plain) - 1)]
    return sum(pair in there for pair in pairs) / len(pairs) if pairs else 0.0


def best_sentence(text: str, cited: Sequence[WindowTurn]) -> str:
    """Return the sentence of the cited turns that has most of the text's words, the longest of several."""
    wanted = stems(marks(text))
    found = [sentence for turn in cited for sentence in sentences(turn.text)] or [turn.text for turn in cited]

    def score(sentence: str) -> tuple[float, int]:
        if _CJK.search(text):
            return _shared_pairs(text, sentence), len(sentence)
        return float(len(wanted & stems(marks(sentence)))), len(sentence)

    return max(found, key=score)


def _type(name: str) -> MemoryType:
    known = {kind.value: kind for kind in MemoryType} | _TYPES
    return known.get(name, MemoryType.FACT)


def _day(one: RawOperation, cited: Sequence[WindowTurn], frame: Frame) -> datetime | None:
    """Return the day that the copied words name, if they were said in a cited turn."""
    if one.when is None:
        return None
    words = " ".join(fold(one.when).split())
    turn = next((turn for turn in cited if words in " ".join(fold(turn.text).split())), None)
    return None if turn is None else named_day(one.when, turn.at, frame.languages)
