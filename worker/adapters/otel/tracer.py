"""Spans through the SDK of OpenTelemetry, sent in the background with OTLP over HTTP.

The provider is this service's own, not the global one: spans of other libraries may hold names of users and texts.
"""

import logging
import threading
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

import structlog
from opentelemetry import trace as otel
from opentelemetry.context import Context, attach, detach
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from worker.ports.tracing import ERROR_TYPE, Attributes, Span, SpanKind, Tracer

NAME = "meeseeks"

KINDS = {
    SpanKind.INTERNAL: otel.SpanKind.INTERNAL,
    SpanKind.SERVER: otel.SpanKind.SERVER,
    SpanKind.CONSUMER: otel.SpanKind.CONSUMER,
    SpanKind.CLIENT: otel.SpanKind.CLIENT,
}

REMOTE = frozenset({SpanKind.SERVER, SpanKind.CONSUMER})
"""Spans whose parent, if any, is in another process."""

_log = structlog.get_logger()
_propagator = TraceContextTextMapPropagator()


class OtelTracer(Tracer):
    """Records spans and hands them to `processor`, by default one that sends them where `OTEL_*` variables say."""

    def __init__(self, processor: SpanProcessor | None = None) -> None:
        _log_through_structlog()
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(NAME)

    def span(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        parent: str | None = None,
        since: float | None = None,
        attributes: Attributes | None = None,
    ) -> AbstractContextManager[Span]:
        context = None
        if kind in REMOTE:
            context = _propagator.extract({"traceparent": parent} if parent else {}, Context())
        started = None if since is None else time.time_ns() - int((time.monotonic() - since) * 1e9)
        span = self._tracer.start_span(name, context, KINDS[kind], attributes, start_time=started)
        return _CurrentSpan(span)

    def close(self, seconds: float) -> None:
        """Send what is left, for at most this long."""
        closing = threading.Thread(target=self._provider.shutdown, name="close-tracing", daemon=True)
        closing.start()
        closing.join(seconds)


class _CurrentSpan(AbstractContextManager[Span]):
    """Makes a span the current one and ends it, without a word of an exception but the name of its type."""

    def __init__(self, span: otel.Span) -> None:
        self._span = span
        self._failed = False

    def __enter__(self) -> Self:
        self._token = attach(otel.set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        detach(self._token)
        if kind is not None and not self._failed:
            self.fail(kind.__name__)
        self._span.end()

    def note(self, attributes: Attributes, name: str | None = None) -> None:
        self._span.set_attributes(attributes)
        if name is not None:
            self._span.update_name(name)

    def fail(self, kind: str) -> None:
        self._failed = True
        self._span.set_attribute(ERROR_TYPE, kind)
        self._span.set_status(otel.StatusCode.ERROR)


def _resource() -> Resource:
    """Return the resource that `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` describe."""
    given = Resource.create()
    if str(given.attributes.get("service.name", "")).startswith("unknown_service"):
        return given.merge(Resource({"service.name": NAME}))
    return given


class _StructlogHandler(logging.Handler):
    """Logs what the SDK has to say, such as that spans could not be sent, in this service's format.

    Of numbers and errors, only the types of the latter are kept, so that repetitions are alike and count as such.
    """

    def emit(self, record: logging.LogRecord) -> None:
        given = record.args if isinstance(record.args, tuple) else ()
        words = [type(one).__name__ if isinstance(one, Exception) else one for one in given]
        _log.warning("tracing", what=str(record.msg), of=", ".join(one for one in words if isinstance(one, str)))


def _log_through_structlog() -> None:
    logger = logging.getLogger("opentelemetry")
    logger.handlers, logger.propagate = [_StructlogHandler(logging.WARNING)], False
