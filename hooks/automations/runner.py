"""Runs the automations of a hook point: in order, each in its time, and whatever they do, never into the caller."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import inf
from types import TracebackType
from typing import Any, Self

from .bounded import Bounded, Ended
from .entries import Entries
from .model import Automation, AutomationError, Kind, Lifetime
from .outcome import AutomationRun, BadOutput, HookOutcome, RunStatus, merged, read
from .programs import ScriptTimedOut, printed_by, workspace_of
from .registry import Registry, default_registry_path
from .threads import Threads

REGISTRY_TIMEOUT = 1.0
"""Most seconds that reading the registry may take; without it nothing is run."""

MOST_IN_BACKGROUND = 16
"""Automations that nobody waits for and that run at a time; further ones are skipped."""

MOST_HANGING = 16
"""Calls that did not end in their time and still hang; beyond that no more are begun."""

KILLING = 0.02
"""Seconds of a script's time that are kept back for killing it, and at most a tenth of it."""

_log = logging.getLogger(__name__)


class AutomationRunner:
    """What an orchestrator embeds. Runs what the registry says is active at a hook point.

    Never raises, and never takes longer than the automations' own timeouts together, nor than the deadline; only
    against an asynchronous entry in Python that blocks the event loop nothing can be done. Without `registry` it is
    the one in the service's data folder. `environment` is given to scripts in addition to what they get anyhow.

        async with AutomationRunner() as runner:
            outcome = await runner.run("worker:pre_execution", {"session_id": "s1", "message": message})
            message = outcome.prefix(message)
    """

    def __init__(self, registry: Registry | None = None, *, environment: Mapping[str, str] | None = None) -> None:
        self._registry = registry or Registry(default_registry_path(os.environ))
        self._environment = dict(environment or {})
        self._threads = Threads()
        self._bounded = Bounded()
        self._entries = Entries(self._threads)
        self._background: set[asyncio.Task[AutomationRun]] = set()

    async def run(
        self, hook_point: str, event: Mapping[str, Any], *, deadline: float = inf, only: str | None = None
    ) -> HookOutcome:
        """Run what is active at a hook point, or only the automation of that name, in at most `deadline` seconds.

        Each one is given the event, with `hook_point`, the milliseconds that it may take in `timeout_ms`, and in
        `enrichment` what those before it have added.
        """
        started = time.monotonic()
        end = started + deadline
        point = str(hook_point)
        if not isinstance(event, Mapping):
            return HookOutcome(point, fault="the event has to be a mapping")
        found, fault = await self._active(point, min(end, started + REGISTRY_TIMEOUT))
        runs: list[AutomationRun] = []
        for automation in found:
            if only in (None, automation.name):
                given = {**event, "hook_point": point, "enrichment": _together(runs)}
                runs.append(await self._one(automation, given, end))
        return HookOutcome(point, tuple(runs), _together(runs), _elapsed_ms(started), fault)

    async def drain(self, seconds: float) -> None:
        """Wait for what runs in the background, at most so long."""
        if self._background:
            await asyncio.wait(self._background, timeout=seconds)

    async def aclose(self) -> None:
        """End what runs in the background, and close what entries in Python hold."""
        for task in self._background:
            task.cancel()
        await self.drain(1.0)
        await self._bounded.within(self._entries.aclose(), time.monotonic() + 1.0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _active(self, hook_point: str, end: float) -> tuple[Sequence[Automation], str]:
        """What is to run, or nothing and why."""
        reading = self._threads.do(lambda: self._registry.active(hook_point))
        ended = await self._bounded.within(reading, end)
        if ended.value is not None:
            return ended.value, ""
        fault = _words(ended.error) if ended.done else "the registry did not answer in time"
        _log.warning("no automation was run: %s", fault)
        return (), fault

    async def _one(self, automation: Automation, event: dict[str, Any], end: float) -> AutomationRun:
        if self._bounded.hanging + self._threads.abandoned >= MOST_HANGING:
            return _skipped(automation, "too many earlier calls still hang")
        if automation.blocking:
            return await self._judged(automation, event, end)
        if len(self._background) >= MOST_IN_BACKGROUND:
            return _skipped(automation, "too many automations run in the background already")
        task = asyncio.create_task(self._judged(automation, event, inf))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return AutomationRun(automation.name, RunStatus.STARTED)

    async def _judged(self, automation: Automation, event: dict[str, Any], end: float) -> AutomationRun:
        """Run one automation and say what became of it."""
        started = time.monotonic()
        end = min(end, started + automation.timeout_ms / 1000)
        if end <= started:
            return _skipped(automation, "no time was left")
        event["timeout_ms"] = max(1, int((end - started) * 1000))
        work = (
            self._called(automation, event) if automation.kind is Kind.PYTHON else self._printed(automation, event, end)
        )
        run = _judge(automation.name, await self._bounded.within(work, end), _elapsed_ms(started))
        level = logging.WARNING if run.status in (RunStatus.FAILED, RunStatus.TIMED_OUT) else logging.DEBUG
        _log.log(level, "automation %s: %s %s", run.name, run.status.value, run.detail)
        return run

    async def _called(self, automation: Automation, event: dict[str, Any]) -> object:
        """What an entry in Python brings."""
        if automation.workspace is None and automation.mode is Lifetime.PERSISTENT:
            return await self._entries.call(automation, event)
        stack = ExitStack()
        folder = await self._threads.do(lambda: stack.enter_context(workspace_of(automation)))
        try:
            return await self._entries.call(automation, {**event, "workspace_dir": str(folder)})
        finally:
            await self._threads.do(stack.close)

    async def _printed(self, automation: Automation, event: Mapping[str, Any], end: float) -> object:
        """What a script prints; it is killed when this is cancelled, too."""
        stop, kept = threading.Event(), min(KILLING, event["timeout_ms"] / 10_000)
        try:
            return await self._threads.do(lambda: printed_by(automation, event, end - kept, stop, self._environment))
        finally:
            stop.set()


def _judge(name: str, ended: Ended[object], elapsed_ms: float) -> AutomationRun:
    if not ended.done or isinstance(ended.error, ScriptTimedOut):
        return AutomationRun(name, RunStatus.TIMED_OUT, elapsed_ms=elapsed_ms)
    if ended.error is not None:
        return AutomationRun(name, RunStatus.FAILED, _words(ended.error), elapsed_ms)
    try:
        enrichment, detail = read(ended.value)
    except BadOutput as error:
        return AutomationRun(name, RunStatus.FAILED, str(error), elapsed_ms)
    status = RunStatus.FIRED if enrichment else RunStatus.SILENT
    return AutomationRun(name, status, detail, elapsed_ms, enrichment)


def _words(error: BaseException | None) -> str:
    """What is said of an error; that of a foreign one may hold what nobody should keep, so its kind has to do."""
    return str(error) if isinstance(error, AutomationError | BadOutput) else type(error).__name__


def _skipped(automation: Automation, why: str) -> AutomationRun:
    _log.warning("automation %s was skipped: %s", automation.name, why)
    return AutomationRun(automation.name, RunStatus.SKIPPED, why)


def _together(runs: Sequence[AutomationRun]) -> dict[str, Any]:
    return merged([run.enrichment for run in runs])


def _elapsed_ms(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 3)
