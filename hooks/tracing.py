"""Names the caller's current span of OpenTelemetry, so that the service's spans are below it."""

import sys


def current_traceparent() -> str | None:
    """Return the `traceparent` of the current span, as W3C Trace Context defines it, or `None` without one.

    OpenTelemetry is only used if the program has imported it.
    """
    trace = sys.modules.get("opentelemetry.trace")
    current = getattr(trace, "get_current_span", None)  # missing while another thread imports the module
    if current is None:
        return None
    span = current().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags & 0xFF:02x}"
