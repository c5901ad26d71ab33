"""Metrics for Prometheus. No label holds a session, a user, a tenant or any text of theirs."""

import time
from collections.abc import Callable
from dataclasses import replace

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from pydantic import BaseModel

from hooks.contract import InjectionResult
from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError
from worker.domain.operation import AnyHandler, HandlerResult, Handlers

from .client import QueueState

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram buckets."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # nothing here needs the second series per counter
        self.registry = registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._requests = Counter(
            "meeseeks_http_requests", "HTTP requests.", ("method", "route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "meeseeks_http_request_seconds",
            "Seconds from the arrival of a request to the end of its response.",
            ("route",),
            buckets=SECONDS,
            registry=registry,
        )
        self._injections = Counter(
            "meeseeks_injections",
            "Injection results, over the queue and HTTP.",
            ("outcome", "reason", "engine", "degraded"),
            registry=registry,
        )
        self._injection_seconds = Histogram(
            "meeseeks_injection_seconds", "Seconds per injection.", buckets=SECONDS, registry=registry
        )
        self._stage_seconds = Histogram(
            "meeseeks_stage_seconds",
            "Seconds per stage of an injection.",
            ("stage",),
            buckets=SECONDS,
            registry=registry,
        )
        self._items = Counter("meeseeks_injected_items", "Injected memories.", registry=registry)
        self._operations = Histogram(
            "meeseeks_operation_seconds",
            "Seconds per operation, by outcome.",
            ("operation", "result"),
            buckets=SECONDS,
            registry=registry,
        )
        self._deliveries = Counter(
            "meeseeks_deliveries",
            "Blocks sent over HTTP: committed, or why not (gone, late, unknown).",
            ("result",),
            registry=registry,
        )
        self._add_gauges(registry)

    def _add_gauges(self, registry: CollectorRegistry) -> None:
        self._queued = Gauge("meeseeks_queue_waiting", "Jobs waiting for a worker.", registry=registry)
        self._waiting = Gauge(
            "meeseeks_requests_waiting", "Requests that wait for their turn in this process.", registry=registry
        )
        self._alive = Gauge("meeseeks_worker_alive", "1 while a worker is alive, else 0.", registry=registry)
        self._redis_up = Gauge("meeseeks_redis_up", "1 while Redis answers, else 0.", registry=registry)
        self._store_up = Gauge("meeseeks_store_up", "1 while the memory store answers, else 0.", registry=registry)
        self._memories = Gauge("meeseeks_store_memories", "Memories in the store, of all tenants.", registry=registry)

    def requested(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an HTTP request; `route` is the pattern of its path, never the path."""
        self._requests.labels(method if method in METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def injected(self, result: InjectionResult) -> None:
        """Count an injection result."""
        reason = result.reason.value if result.reason else ""
        self._injections.labels(result.outcome.value, reason, result.engine.value, str(result.degraded).lower()).inc()
        self._injection_seconds.observe(result.elapsed_ms / 1000)
        for stage, spent in result.stages.items():
            self._stage_seconds.labels(stage).observe(spent / 1000)
        self._items.inc(len(result.items))

    def delivered(self, result: str) -> None:
        """Count a block as committed, gone, late or unknown."""
        self._deliveries.labels(result).inc()

    def queue(self, state: QueueState | None) -> None:
        """Set the state of the queue; `None` means that Redis does not answer."""
        self._redis_up.set(state is not None)
        self._queued.set(state.waiting if state else 0)
        self._alive.set(state.alive if state else False)

    def watch_waiting(self, waiting: Callable[[], int]) -> None:
        """Ask `waiting`, whenever metrics are read, how many requests wait for their turn."""
        self._waiting.set_function(waiting)

    def store(self, memories: int | None) -> None:
        """Set the number of memories; `None` means that the store does not answer."""
        self._store_up.set(memories is not None)
        if memories is not None:
            self._memories.set(memories)

    def timed(self, handlers: Handlers) -> dict[str, AnyHandler]:
        """Return the handlers, each of which measures how long it takes."""
        return {name: self._timed(handler) for name, handler in handlers.items()}

    def _timed(self, handler: AnyHandler) -> AnyHandler:
        async def run(request: BaseModel, deadline: Deadline) -> HandlerResult[BaseModel]:
            start, result = time.monotonic(), "failed"
            try:
                found = await handler.run(request, deadline)
                result = "done"
                return found
            except MeeseeksError as error:
                result = type(error).__name__
                raise
            finally:
                self._operations.labels(handler.operation.name, result).observe(time.monotonic() - start)

        return replace(handler, run=run)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)
