"""Cues of a memory: short messages at which it would matter, written when the memory is written."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from hooks.contract import Key, Text

MOST_CUES = 12
"""Maximum cues of a memory."""

MOST_LEARNED = 8
"""Maximum cues of a memory that were learned from messages."""

MAX_CUE_CHARS = 200
"""Maximum characters of a cue."""


class CueOrigin(StrEnum):
    """Who wrote a cue: whoever stored the memory, a model in the background, or a user whose message needed it."""

    GIVEN = "given"
    MODEL = "model"
    LEARNED = "learned"


_MAKING_ROOM = (CueOrigin.LEARNED, CueOrigin.MODEL, CueOrigin.GIVEN)
"""Origins in the order in which cues make room for others."""


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


class Cue(BaseModel):
    """A message at which a memory would matter.

    `prompt` identifies the prompt of a model's cue, `user` the user from whose message a cue was learned.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Annotated[Text, AfterValidator(_on_one_line), Field(min_length=1)]
    origin: CueOrigin = CueOrigin.GIVEN
    prompt: Key | None = None
    user: Text | None = None


@dataclass(frozen=True, slots=True)
class CueVectors:
    """Vectors of a memory with cues or a long text.

    Searches use `joint`, the vector of text and cues together, or the mean of the pieces of a long text. `rows` has the
    vector of the text alone, then one per cue and one per piece, packed by `worker.domain.vectors`.
    """

    joint: tuple[float, ...]
    rows: bytes


@dataclass(frozen=True, slots=True)
class CueMatch:
    """How near a query is to a memory's own text and to its cues; `near` counts the cues that are near it."""

    own_cosine: float
    cosine: float
    text: str
    near: int

    @property
    def leading(self) -> str | None:
        """Return the nearest cue, if it is nearer than the memory's own text."""
        return self.text if self.cosine > self.own_cosine else None


def cue_key(text: str) -> str:
    """Return the form in which two cues are the same."""
    return " ".join(text.split()).casefold().rstrip("?!. ")


def distinct(cues: Iterable[Cue]) -> tuple[Cue, ...]:
    """Return the first of the cues that say the same."""
    found: dict[str, Cue] = {}
    for cue in cues:
        found.setdefault(cue_key(cue.text), cue)
    return tuple(found.values())


def with_more(cues: Sequence[Cue], added: Sequence[Cue]) -> tuple[Cue, ...]:
    """Return `cues` with what `added` says beside them.

    The maximums hold: learned cues make room first, then a model's, then given ones, each time the oldest.
    """
    known = {cue_key(cue.text) for cue in cues}
    both = (*cues, *(cue for cue in distinct(added) if cue_key(cue.text) not in known))
    learned = [place for place, cue in enumerate(both) if cue.origin is CueOrigin.LEARNED]
    gone = set(learned[: max(0, len(learned) - MOST_LEARNED)])
    left = (place for place in range(len(both)) if place not in gone)
    order = sorted(left, key=lambda place: (_MAKING_ROOM.index(both[place].origin), place))
    gone.update(order[: max(0, len(order) - MOST_CUES)])
    return tuple(cue for place, cue in enumerate(both) if place not in gone)


def of_owner(cues: tuple[Cue, ...], user: str | None) -> tuple[Cue, ...]:
    """Return the cues without those that were learned from messages of another user than the memory's."""
    kept = tuple(cue for cue in cues if cue.origin is not CueOrigin.LEARNED or cue.user == user)
    return cues if len(kept) == len(cues) else kept


def _listed(value: Any) -> Any:
    """Accept texts beside objects, and drop blank ones."""
    if value is None:
        return ()
    return list(_objects(value)) if isinstance(value, list | tuple) else value


def _objects(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        text = value.get("text") if isinstance(value, Mapping) else value
        if not (isinstance(text, str) and not text.split()):
            yield {"text": value} if isinstance(value, str) else value


def _checked(cues: tuple[Cue, ...]) -> tuple[Cue, ...]:
    kept = distinct(cues)
    if any(len(cue.text) > MAX_CUE_CHARS for cue in kept):
        raise ValueError(f"a cue has at most {MAX_CUE_CHARS} characters; write it as a short message")
    if len(kept) > MOST_CUES:
        raise ValueError(f"a memory has at most {MOST_CUES} cues; keep the most typical ones")
    if Counter(cue.origin for cue in kept)[CueOrigin.LEARNED] > MOST_LEARNED:
        raise ValueError(f"a memory has at most {MOST_LEARNED} learned cues")
    return kept


Cues = Annotated[
    tuple[Cue, ...], BeforeValidator(_listed, json_schema_input_type=tuple[Text | Cue, ...]), AfterValidator(_checked)
]
"""The cues of a memory, given as texts or objects."""
