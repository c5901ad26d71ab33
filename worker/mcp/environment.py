"""Configure fastmcp before its first import."""

import logging
import os
from collections.abc import MutableMapping

import structlog

_log = structlog.get_logger()


def prepare_environment(environ: MutableMapping[str, str]) -> None:
    """Make fastmcp ignore the environment and `.env` files, and log through structlog.

    Hosts start the server in a project's folder, whose `.env` must not affect it.
    """
    for name in [name for name in environ if name.startswith("FASTMCP_")]:
        del environ[name]
    environ.update(FASTMCP_ENV_FILE=os.devnull, FASTMCP_LOG_ENABLED="false", FASTMCP_CHECK_FOR_UPDATES="off")
    for name in ("fastmcp", "mcp"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [QuietFilter(logging.ERROR)], False


class QuietFilter(logging.Handler):
    """Log the place and type of a library's error, but not its message, which may contain private text."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        _log.log(record.levelno, "mcp_library", where=f"{record.name}:{record.lineno}", error=kind and kind.__name__)
