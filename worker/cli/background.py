"""`meeseeks start`, `stop`, `restart`, `status` and `logs`: the service of this machine in the background."""

import os
import signal
import subprocess
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.bootstrap.embedded import embedded_is_up
from worker.domain.errors import MeeseeksError
from worker.operations.registry import HEALTH
from worker.settings.injection import Settings
from worker.text.counts import counted

from .backend import open_client
from .checks import captures_in_words, cues_in_words, what_decides
from .options import settings_of
from .output import answer, fail
from .running import run_async
from .supervision import log_file, service_command, supervisor_of

MOST_LOG_BYTES = 10_000_000
"""Size from which the next start sets the log aside as `service.log.1`."""

START_S = 60.0
STOP_S = 20.0
LOOK_S = 0.1

NOT_RUNNING = "meeseeks is not running"


def start(context: typer.Context) -> None:
    """Run the service in the background, until `stop`."""
    settings = own_settings(context)
    if embedded_is_up(settings.service):
        fail(f"already running (pid {health_of(settings)['pid']}) on {settings.service.home}")
    _answer_started(launch(context, settings))


def stop(context: typer.Context) -> None:
    """Stop the service of this data folder; requests in progress are finished."""
    settings = own_settings(context)
    if not embedded_is_up(settings.service):
        if (supervisor := supervisor_of(settings)) is not None:
            supervisor.stop()  # it may be about to try again
        fail(NOT_RUNNING)
    pid = halt(settings)
    answer({"stopped": pid}, f"stopped (pid {pid})")


def restart(context: typer.Context) -> None:
    """Stop the service of this data folder if it runs, and start it again."""
    settings = own_settings(context)
    if embedded_is_up(settings.service):
        halt(settings)
    _answer_started(launch(context, settings))


def status(context: typer.Context) -> None:
    """Show whether the service runs, and with what.

    Exit with 1 if it does not.
    """
    settings = settings_of(context)
    if settings.service.redis_url is None and not embedded_is_up(settings.service):
        fail(f"{NOT_RUNNING}; start it with `meeseeks start`")
    health, supervisor = health_of(settings), supervisor_of(settings)
    store = health["store"]
    fields = {
        "running": True,
        "pid": health["pid"],
        "memories": store["points"],
        "store": health["store_at"],
        "embedder": health["embedder"],
        "model": health["model"],
        "log": str(log_file(settings)),
        "kept_by": supervisor.title if supervisor is not None else None,
        "cues": health["cues"],
        "captures": health.get("captures"),
    }
    deciding = what_decides(health)
    kept = f", and {supervisor.title} keeps it running" if supervisor is not None else ""
    cues = f"; cues: {cues_in_words(health['cues'])}" if health["cues"] else ""
    cues += f"; capture: {captures_in_words(health['captures'])}" if health.get("captures") else ""
    answer(fields, f"running (pid {health['pid']}): {counted(store['points'])}, {deciding} decides{kept}{cues}")


def logs(
    context: typer.Context,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Number of lines.")] = 50,
) -> None:
    """Show the last lines that the service in the background has logged."""
    path = log_file(settings_of(context))
    if not path.is_file():
        fail(f"there is no log at {path}; only services that `meeseeks start` started write it")
    with path.open(encoding="utf-8", errors="replace") as file:
        last = [line.rstrip("\n") for line in deque(file, lines)]
    answer({"file": str(path), "lines": last}, "\n".join(last))


def own_settings(context: typer.Context) -> Settings:
    """Return the settings of a service that runs on its own data folder."""
    settings = settings_of(context)
    if settings.service.redis_url is not None:
        fail("redis_url is set, so workers run apart from this command; start and stop them where they run")
    return settings


def _answer_started(fields: dict[str, Any]) -> None:
    answer(fields, f"running (pid {fields['pid']}); stop it with `meeseeks stop`")


def launch(context: typer.Context, settings: Settings) -> dict[str, Any]:
    """Start the service, by its service manager if it has one, and return what it is once it answers."""
    path = log_file(settings)
    _prepare(path)
    supervisor = supervisor_of(settings)
    process = _spawned(context, settings, path) if supervisor is None else None
    if supervisor is not None:
        supervisor.start()
    end = time.monotonic() + START_S
    while (health := _answering(settings)) is None:
        if process is not None and process.poll() is not None:
            fail(f"the service ended at once: {_last_line(path)}; see `meeseeks logs`")
        if time.monotonic() > end:
            if process is not None:
                process.terminate()
            elif supervisor is not None:
                supervisor.stop()
            fail(f"the service did not answer within {START_S:.0f} s and was stopped; see `meeseeks logs`")
        time.sleep(LOOK_S)
    return {"pid": health["pid"], "memories": health["store"]["points"], "log": str(path)}


def _prepare(log: Path) -> None:
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if log.is_file() and log.stat().st_size > MOST_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))


def _spawned(context: typer.Context, settings: Settings, log: Path) -> "subprocess.Popen[bytes]":
    """Run `meeseeks up` with the options of this command, in a session of its own."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(  # noqa: S603 - the program is this one
            service_command(context.obj, settings),
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)


def halt(settings: Settings) -> int:
    """Stop the service of this data folder, and return the id that its process had."""
    pid = int(health_of(settings)["pid"])
    if (supervisor := supervisor_of(settings)) is not None:
        supervisor.stop()
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + STOP_S
    while embedded_is_up(settings.service) or _exists(pid):
        if time.monotonic() > end:
            fail(f"the service (pid {pid}) has not stopped within {STOP_S:.0f} s; see `meeseeks logs`")
        time.sleep(LOOK_S)
    return pid


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def health_of(settings: Settings) -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        async with open_client(settings) as backend:
            return await backend.call(HEALTH, {}, budget=5.0)

    return run_async(work())


def _answering(settings: Settings) -> dict[str, Any] | None:
    try:
        return health_of(settings) if embedded_is_up(settings.service) else None
    except MeeseeksError:
        return None


def _last_line(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return next((line.strip() for line in deque(file, 1)), "it logged nothing")
