"""Typed declarations of the operations that the service offers, and the handlers bound to them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, RootModel

from .deadline import Deadline

RequestT = TypeVar("RequestT", bound=BaseModel)
ResultT = TypeVar("ResultT", bound=BaseModel)

JsonObject = RootModel[dict[str, Any]]
"""A request or result without a fixed set of fields."""


@dataclass(frozen=True, slots=True)
class OperationAnswer:
    """A result as a JSON object. The caller commits `commit`, a ledger key and a turn id, once it has delivered it."""

    body: dict[str, Any]
    commit: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Undelivered(Generic[ResultT]):
    """A result that the caller must commit once it has delivered it."""

    result: ResultT
    commit: tuple[str, str]


HandlerResult: TypeAlias = ResultT | Undelivered[ResultT]


@dataclass(frozen=True, slots=True)
class Operation(Generic[RequestT, ResultT]):
    """The name of an operation and the models of its request and result.

    `writes` marks operations that change the memory store. With `omit_unset`, fields that the handler did not set are
    left out of the answer. With `queues`, the handler makes callers wait for their turn itself.
    """

    name: str
    request: type[RequestT]
    result: type[ResultT]
    writes: bool = False
    omit_unset: bool = False
    queues: bool = False

    def bind(
        self, run: Callable[[RequestT, Deadline], Awaitable[HandlerResult[ResultT]]]
    ) -> "Handler[RequestT, ResultT]":
        return Handler(self, run)

    def handler_in(self, handlers: "Handlers") -> "Handler[RequestT, ResultT]":
        return handlers[self.name]


@dataclass(frozen=True, slots=True)
class Handler(Generic[RequestT, ResultT]):
    """An operation and the coroutine function that does it before a deadline. It raises `MeeseeksError`."""

    operation: Operation[RequestT, ResultT]
    run: Callable[[RequestT, Deadline], Awaitable[HandlerResult[ResultT]]]


AnyOperation = Operation[Any, Any]
AnyHandler = Handler[Any, Any]
Handlers = Mapping[str, AnyHandler]
"""Handlers by the names of their operations."""


def by_name(handlers: Iterable[AnyHandler]) -> dict[str, AnyHandler]:
    return {handler.operation.name: handler for handler in handlers}


def split_commit(found: HandlerResult[ResultT]) -> tuple[ResultT, tuple[str, str] | None]:
    """Return the result and what to commit once it is delivered."""
    return (found.result, found.commit) if isinstance(found, Undelivered) else (found, None)
