"""The protocol for tracing: spans of named steps, each below the one around it, with attributes that hold no text."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

Attribute = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, Attribute]

ERROR_TYPE = "error.type"
"""The attribute that says why a span failed."""


class SpanKind(StrEnum):
    """What a span does for its caller, as OpenTelemetry defines it."""

    INTERNAL = "internal"
    SERVER = "server"
    CONSUMER = "consumer"
    CLIENT = "client"


class Span(Protocol):
    """A step in progress. An exception that leaves it makes it failed, by the name of its type."""

    def note(self, attributes: Attributes, name: str | None = None) -> None:
        """Add attributes, and rename the span if `name` is given."""
        ...

    def fail(self, kind: str) -> None:
        """Mark the step as failed, by a word such as a `Reason`."""
        ...


class Tracer(Protocol):
    """Records spans. Never raises, and never waits for whoever receives them."""

    def span(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        parent: str | None = None,
        since: float | None = None,
        attributes: Attributes | None = None,
    ) -> AbstractContextManager[Span]:
        """Return a context in which the span is the current one.

        `since` is its beginning in monotonic seconds, now by default. Spans of servers and consumers continue the
        trace of `parent`, a `traceparent`, or begin one; others are below the current span.
        """
        ...


class _NoSpan:
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def note(self, attributes: Attributes, name: str | None = None) -> None:
        pass

    def fail(self, kind: str) -> None:
        pass


class NoTracer(Tracer):
    """Records nothing, at the cost of a call."""

    def span(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        parent: str | None = None,
        since: float | None = None,
        attributes: Attributes | None = None,
    ) -> AbstractContextManager[Span]:
        return _NO_SPAN


_NO_SPAN = _NoSpan()
NO_TRACER = NoTracer()
