"""Spans recorded in memory, and a receiver of OTLP over HTTP that keeps what a service sends."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from worker.adapters.otel.tracer import OtelTracer

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE_ID, SPAN_ID = PARENT.split("-")[1:3]


class Recording:
    """The service's tracer, with spans kept in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracer = OtelTracer(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def one(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found


def parent_of(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"{span.parent.span_id:016x}"


def id_of(span: ReadableSpan) -> str:
    return f"{span.get_span_context().span_id:016x}"


@dataclass(frozen=True)
class Received:
    """A span as it was sent."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    start: int
    end: int
    failed: bool
    attributes: dict[str, Any]


@dataclass
class Receiver:
    """Keeps the bodies that services post. While `hangs` is set, it takes requests and answers none."""

    url: str
    bodies: list[bytes] = field(default_factory=list)
    hangs: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)

    def spans(self) -> list[Received]:
        return [
            _received(span)
            for body in list(self.bodies)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def wait_for(self, wanted: Callable[[list[Received]], bool], seconds: float = 20.0) -> list[Received]:
        """Return the spans once they are as `wanted`."""
        end = time.monotonic() + seconds
        while not wanted(spans := self.spans()):
            assert time.monotonic() < end, sorted(span.name for span in spans)
            time.sleep(0.02)
        return spans


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.asked.set()
            if receiver.hangs.is_set():
                released.wait()
                return
            receiver.bodies.append(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    released = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _received(span: Any) -> Received:
    return Received(
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        failed=span.status.code == 2,
        attributes={one.key: _value(one.value) for one in span.attributes},
    )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(part) for part in value.array_value.values] if kind == "array_value" else getattr(value, kind)
