"""Run the automations of a hook point in order, with time limits, and isolate the caller from their errors."""

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

from ..failing import elapsed_ms
from .bounded import Bounded, Completion
from .entries import Entries
from .model import Automation, AutomationError, Kind, Lifetime
from .outcome import AutomationRun, BadOutput, HookOutcome, RunStatus, merged, read
from .programs import ScriptTimedOut, printed_by, workspace_of
from .registry import Registry, default_registry_path
from .threads import Threads

REGISTRY_TIMEOUT = 1.0
"""Seconds for reading the registry; on timeout, nothing runs."""

MAX_BACKGROUND = 16
"""Maximum concurrent non-blocking automations; more are skipped."""

MAX_HANGING = 16
"""Maximum late calls that still hang; with more, automations are skipped."""

KILL_RESERVE = 0.02
"""Seconds of a script's time reserved for killing it, at most a tenth of it."""

_log = logging.getLogger(__name__)


class AutomationRunner:
    """Run the active automations of a hook point, for orchestrators.

    Never raises and never takes longer than the deadline or the sum of the automations' timeouts, unless an
    asynchronous Python entry blocks the event loop. `registry` defaults to the one in the data folder. `environment`
    extends the variables of scripts.

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
        """Run the active automations, or `only` the named one, within `deadline` seconds.

        Each gets the event with `hook_point`, its time limit in `timeout_ms`, and the `enrichment` of earlier ones.
        """
        started = time.monotonic()
        end = started + deadline
        point = str(hook_point)
        if not isinstance(event, Mapping):
            return HookOutcome(point, fault="the event must be a mapping")
        found, fault = await self._active(point, min(end, started + REGISTRY_TIMEOUT))
        runs: list[AutomationRun] = []
        for automation in found:
            if only in (None, automation.name):
                given = {**event, "hook_point": point, "enrichment": _merged(runs)}
                runs.append(await self._start(automation, given, end))
        return HookOutcome(point, tuple(runs), _merged(runs), elapsed_ms(started), fault)

    async def drain(self, seconds: float) -> None:
        """Wait for background automations for at most `seconds`."""
        if self._background:
            await asyncio.wait(self._background, timeout=seconds)

    async def aclose(self) -> None:
        """Cancel background automations and close Python entries."""
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
        """Return the active automations, or none and the reason."""
        reading = self._threads.do(lambda: self._registry.active(hook_point))
        completion = await self._bounded.within(reading, end)
        if completion.value is not None:
            return completion.value, ""
        fault = _describe(completion.error) if completion.done else "the registry did not answer in time"
        _log.warning("no automations ran: %s", fault)
        return (), fault

    async def _start(self, automation: Automation, event: dict[str, Any], end: float) -> AutomationRun:
        if self._bounded.hanging + self._threads.abandoned >= MAX_HANGING:
            return _skipped(automation, "too many earlier calls still hang")
        if automation.blocking:
            return await self._run_one(automation, event, end)
        if len(self._background) >= MAX_BACKGROUND:
            return _skipped(automation, "too many automations run in the background")
        task = asyncio.create_task(self._run_one(automation, event, inf))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return AutomationRun(automation.name, RunStatus.STARTED)

    async def _run_one(self, automation: Automation, event: dict[str, Any], end: float) -> AutomationRun:
        """Run one automation and return its status."""
        started = time.monotonic()
        end = min(end, started + automation.timeout_ms / 1000)
        if end <= started:
            return _skipped(automation, "no time left")
        event["timeout_ms"] = max(1, int((end - started) * 1000))
        work = (
            self._call_entry(automation, event)
            if automation.kind is Kind.PYTHON
            else self._run_script(automation, event, end)
        )
        run = _result(automation.name, await self._bounded.within(work, end), elapsed_ms(started))
        level = logging.WARNING if run.status in (RunStatus.FAILED, RunStatus.TIMED_OUT) else logging.DEBUG
        _log.log(level, "automation %s: %s %s", run.name, run.status.value, run.detail)
        return run

    async def _call_entry(self, automation: Automation, event: dict[str, Any]) -> object:
        if automation.workspace is None and automation.mode is Lifetime.PERSISTENT:
            return await self._entries.call(automation, event)
        stack = ExitStack()
        folder = await self._threads.do(lambda: stack.enter_context(workspace_of(automation)))
        try:
            return await self._entries.call(automation, {**event, "workspace_dir": str(folder)})
        finally:
            await self._threads.do(stack.close)

    async def _run_script(self, automation: Automation, event: Mapping[str, Any], end: float) -> object:
        """Run a script; kill it on cancellation."""
        stop, reserve = threading.Event(), min(KILL_RESERVE, event["timeout_ms"] / 10_000)
        try:
            return await self._threads.do(lambda: printed_by(automation, event, end - reserve, stop, self._environment))
        finally:
            stop.set()


def _result(name: str, completion: Completion[object], elapsed_ms: float) -> AutomationRun:
    if not completion.done or isinstance(completion.error, ScriptTimedOut):
        return AutomationRun(name, RunStatus.TIMED_OUT, elapsed_ms=elapsed_ms)
    if completion.error is not None:
        return AutomationRun(name, RunStatus.FAILED, _describe(completion.error), elapsed_ms)
    try:
        enrichment, detail = read(completion.value)
    except BadOutput as error:
        return AutomationRun(name, RunStatus.FAILED, str(error), elapsed_ms)
    status = RunStatus.FIRED if enrichment else RunStatus.SILENT
    return AutomationRun(name, status, detail, elapsed_ms, enrichment)


def _describe(error: BaseException | None) -> str:
    """Return the text of our own errors, and only the type of others, whose text may hold private data."""
    return str(error) if isinstance(error, AutomationError | BadOutput) else type(error).__name__


def _skipped(automation: Automation, why: str) -> AutomationRun:
    _log.warning("automation %s was skipped: %s", automation.name, why)
    return AutomationRun(automation.name, RunStatus.SKIPPED, why)


def _merged(runs: Sequence[AutomationRun]) -> dict[str, Any]:
    return merged([run.enrichment for run in runs])
