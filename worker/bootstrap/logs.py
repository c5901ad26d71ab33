"""Logging of the service."""

import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from worker.settings.service import ServiceSettings
from worker.text.terminal import for_terminal

from .repeated_logs import RepeatedLogs


def configure_logging(service: ServiceSettings) -> None:
    """Log structured lines to standard error: JSON, or coloured text on a terminal."""
    console = service.log_format == "console" or (service.log_format == "auto" and sys.stderr.isatty())
    renderer: Any = structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            RepeatedLogs(_log_again),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _for_terminal,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(service.log_level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _log_again(event: MutableMapping[str, Any]) -> None:
    fields = {name: value for name, value in event.items() if name not in ("event", "level")}
    getattr(structlog.get_logger(), event["level"])(event["event"], **fields)


def _for_terminal(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Let no text in an event reach a terminal as a control sequence."""
    return {key: for_terminal(value) if isinstance(value, str) else value for key, value in event.items()}
