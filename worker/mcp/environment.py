"""What has to be set before fastmcp is first imported."""

import logging
import os
from collections.abc import MutableMapping

import structlog

_log = structlog.get_logger()


def prepare_environment(environ: MutableMapping[str, str]) -> None:
    """Makes fastmcp take nothing from the environment or from a `.env` in the working folder, and log through us.

    An agent's host starts the server in the folder of a project, whose `.env` has nothing to say here.
    """
    for name in [name for name in environ if name.startswith("FASTMCP_")]:
        del environ[name]
    environ.update(FASTMCP_ENV_FILE=os.devnull, FASTMCP_LOG_ENABLED="false", FASTMCP_CHECK_FOR_UPDATES="off")
    for name in ("fastmcp", "mcp"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [QuietFilter(logging.ERROR)], False


class QuietFilter(logging.Handler):
    """Tells where a library failed and of which error, never its words: they may repeat what was asked or stored."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        _log.log(record.levelno, "mcp_library", where=f"{record.name}:{record.lineno}", error=kind and kind.__name__)
