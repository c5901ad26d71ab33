"""Whether and where traces are sent, which the standard variables of OpenTelemetry say."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import structlog

from worker.ports.tracing import NO_TRACER, Tracer

if TYPE_CHECKING:
    from worker.adapters.otel.tracer import OtelTracer

DISABLED = "OTEL_SDK_DISABLED"
EXPORTER = "OTEL_TRACES_EXPORTER"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"

INSTALL = "OpenTelemetry is not installed; run: pip install 'memory-meeseeks[otel]'"

CLOSE_S = 2.0
"""Seconds for the last spans to be sent when the process ends."""

log = structlog.get_logger()


@asynccontextmanager
async def open_tracer(environ: Mapping[str, str]) -> AsyncIterator[Tracer]:
    """Open the tracer that `OTEL_*` variables ask for. If it cannot be opened, log why and trace nothing."""
    tracer = _opened(environ) if wants_traces(environ) else None
    if tracer is None:
        yield NO_TRACER
        return
    try:
        yield tracer
    finally:
        await asyncio.to_thread(tracer.close, CLOSE_S)


def wants_traces(environ: Mapping[str, str]) -> bool:
    """Return whether traces are to be sent: an exporter or an endpoint is named, and nothing turns them off."""
    if environ.get(DISABLED, "").strip().lower() == "true":
        return False
    exporters = {name.strip().lower() for name in environ.get(EXPORTER, "").split(",")} - {""}
    return "otlp" in exporters if exporters else any(environ.get(name) for name in ENDPOINTS)


def _opened(environ: Mapping[str, str]) -> "OtelTracer | None":
    name = next((name for name in PROTOCOLS if environ.get(name)), None)
    if name is not None and environ[name].strip() != PROTOCOL:
        log.error("traces_off", error=f"{name}: only {PROTOCOL} is supported, usually at port 4318")
        return None
    try:
        tracer: OtelTracer = import_module("worker.adapters.otel.tracer").OtelTracer()
    except ImportError:
        log.error("traces_off", error=INSTALL)
        return None
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        log.error("traces_off", error=f"an OTEL_* variable is wrong: {type(error).__name__}")
        return None
    log.info("traces_on")
    return tracer
