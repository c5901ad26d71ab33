"""Models of labelled cases, apart from what makes them, so that commands load fast."""

from typing import Any

from pydantic import Field

from hooks.contract import Key
from worker.domain.memory import DomainModel

Line = dict[str, Any]


class Labels(DomainModel):
    """Ids of memories that must, may and must never be injected; `accept` labels other selected ones as essential.

    Those `missing` must be injected, too, also if the request did not consider them.
    """

    essential: tuple[Key, ...] = ()
    useful: tuple[Key, ...] = ()
    forbidden: tuple[Key, ...] = ()
    missing: tuple[Key, ...] = ()
    accept: bool = False
    category: Key = "receipt"


class LabelledCase(DomainModel):
    """A labelled task and its considered memories, as lines of a case file."""

    task: Line
    memories: tuple[Line, ...] = Field(default=())
