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


class CueOrigin(StrEnum):
    """Who wrote a cue: whoever stored the memory, a model in the background, or a user whose message needed it."""

    GIVEN = "given"
    MODEL = "model"
    LEARNED = "learned"


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
    """Return `cues` with what `added` says beside them. The maximum holds: a model's cues make room first, then the
    oldest ones."""
    known = {cue_key(cue.text) for cue in cues}
    new = [cue for cue in distinct(added) if cue_key(cue.text) not in known]
    over = len(cues) + len(new) - MOST_CUES
    if over <= 0:
        return (*cues, *new)
    order = sorted(range(len(cues)), key=lambda place: (cues[place].origin is not CueOrigin.MODEL, place))
    gone = set(order[:over])
    return (*(cue for place, cue in enumerate(cues) if place not in gone), *new)[-MOST_CUES:]


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
