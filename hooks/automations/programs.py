"""One automation as a program: its folder, its environment, its input, and what its ending means."""

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .model import Automation, AutomationError, Lifetime
from .outcome import parsed
from .scripts import Ending, ScriptJob, ScriptRun, environment_for

_log = logging.getLogger(__name__)


class ScriptFailed(AutomationError):
    """A script did not end as it should; the message says how it ended."""


class ScriptTimedOut(ScriptFailed):
    """A script took too long, and was killed."""


@contextmanager
def workspace_of(automation: Automation) -> Iterator[Path | None]:
    """The folder that an automation works in, for its user alone; `None` where it has none of its own.

    That of a persistent one is made when it is missing, and stays. An ephemeral one gets an empty folder for each run,
    in its workspace or else where temporary files go, which is deleted after the run. Blocks. Raises `OSError`.
    """
    folder = automation.workspace
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if automation.mode is Lifetime.PERSISTENT:
        yield folder
        return
    with TemporaryDirectory(prefix=f"{automation.name}-", dir=folder, ignore_cleanup_errors=True) as passing:
        yield Path(passing)


def printed_by(
    automation: Automation, event: Mapping[str, Any], end: float, stop: threading.Event, more: Mapping[str, str]
) -> object:
    """Run a script to its end; what it printed, as a value. Blocks until `end`, in monotonic seconds, or `stop`.

    `more` goes on top of its environment. Raises `ScriptFailed`, `BadOutput`, and `OSError` for its folder.
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
        _log.debug("automation %s said: %s", automation.name, run.stderr.decode("utf-8", "replace"))
    _must_have_ended_well(run)
    return parsed(run.stdout)


def _must_have_ended_well(run: ScriptRun) -> None:
    match run.ending:
        case Ending.EXITED if run.exit_status == 0:
            return
        case Ending.EXITED:
            raise ScriptFailed(f"exit status {run.exit_status}")
        case Ending.NOT_STARTED:
            raise ScriptFailed(f"it cannot be started: {run.fault}")
        case Ending.TOO_MUCH_OUTPUT:
            raise ScriptFailed("it printed too much")
        case _:
            raise ScriptTimedOut("it was killed")
