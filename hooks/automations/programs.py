"""Run a script automation with its workspace, environment and input."""

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..private_files import make_private_folder
from .model import Automation, AutomationError, Lifetime
from .outcome import parsed
from .scripts import Ending, ScriptJob, ScriptRun, environment_for

_log = logging.getLogger(__name__)


class ScriptFailed(AutomationError):
    """A script failed; the message says how."""


class ScriptTimedOut(ScriptFailed):
    """A script took too long and was killed."""


@contextmanager
def workspace_of(automation: Automation) -> Iterator[Path | None]:
    """Yield the private working folder of an automation, or `None` if a persistent one has no workspace.

    Create a persistent workspace if it is missing. An ephemeral automation gets a new temporary folder per run, inside
    its workspace if it has one. Blocks. Raise `OSError` on failure.
    """
    folder = automation.workspace
    if folder is not None:
        make_private_folder(folder)
    if automation.mode is Lifetime.PERSISTENT:
        yield folder
        return
    with TemporaryDirectory(prefix=f"{automation.name}-", dir=folder, ignore_cleanup_errors=True) as temporary:
        yield Path(temporary)


def printed_by(
    automation: Automation, event: Mapping[str, Any], end: float, stop: threading.Event, more: Mapping[str, str]
) -> object:
    """Run a script and return its parsed output. Block until `end`, in monotonic seconds, or `stop`.

    `more` extends its environment. Raise `ScriptFailed`, `BadOutput`, or `OSError` for its folder.
    """
    with workspace_of(automation) as folder:
        own = {"MEESEEKS_AUTOMATION": automation.name, "MEESEEKS_HOOK_POINT": automation.hook_point}
        own["MEESEEKS_TIMEOUT_MS"] = str(event["timeout_ms"])
        if folder is not None:
            event = {**event, "workspace_dir": str(folder)}
            own["MEESEEKS_WORKSPACE_DIR"] = str(folder)
        given = json.dumps(event, default=str).encode()
        environment = environment_for(os.environ, own | dict(more))
        run = ScriptJob(automation.script, given, folder, environment, end, stop).run()
    if run.stderr:
        _log.debug("automation %s wrote to standard error: %s", automation.name, run.stderr.decode("utf-8", "replace"))
    _check_exit(run)
    return parsed(run.stdout)


def _check_exit(run: ScriptRun) -> None:
    match run.ending:
        case Ending.EXITED if run.exit_status == 0:
            return
        case Ending.EXITED:
            raise ScriptFailed(f"exit status {run.exit_status}")
        case Ending.NOT_STARTED:
            raise ScriptFailed(f"it could not start: {run.fault}")
        case Ending.TOO_MUCH_OUTPUT:
            raise ScriptFailed("it printed too much")
        case _:
            raise ScriptTimedOut("it was killed")
