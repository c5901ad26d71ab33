"""What a job does and what it brings, as far as the queue needs to know."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from .deadline import Deadline


@dataclass(frozen=True, slots=True)
class OperationAnswer:
    """A job's result as a JSON object, and what the caller is to commit once it has delivered it.

    `commit` is the ledger's key in Redis and the turn's id.
    """

    body: dict[str, Any]
    commit: tuple[str, str] | None = None


Operation = Callable[[dict[str, Any], Deadline], Awaitable[OperationAnswer]]
"""One job: takes the payload, and the time until which its answer is of use. Raises `MeeseeksError`."""
