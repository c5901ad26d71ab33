"""`meeseeks doctor HOST`: whether the hooks of a host are there, and whether each does what its host expects.

What is installed is run just as the host would, with a canary that lives in a tenant of its own: first cold, then some
times more. Its output is held against the host's rules.
"""

import json
import os
import statistics
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.adapters.local.hook_runner import CommandRun, filled, post, run_command
from worker.bootstrap.opening import embedded_is_up
from worker.cli.backend import open_client
from worker.cli.checks import Check
from worker.domain.errors import MeeseeksError
from worker.hosts import HostProfile
from worker.hosts.profile import DEFAULT_HOOK_DEADLINE_MS
from worker.hosts.settings_edit import Handler, HandlerKind, InstalledHandler
from worker.operations.client import OperationClient
from worker.operations.hosts import CANARY_SESSION, CANARY_TENANT
from worker.operations.memories import FORGET, REMEMBER
from worker.settings.injection import Settings

from .host_setup import HostEnvironment, command_line, installed, plugins, switched_off

CANARY = "The doctor's canary sings at {code} o'clock"
QUESTION = "When does the doctor's canary {code} sing?"
WARM_RUNS = 3
BLOCKING = 2
"""The exit code by which a hook blocks the user's prompt."""


@dataclass(frozen=True, slots=True)
class DeliveryCheck:
    """A memory to be found, by its code."""

    code: str

    @property
    def text(self) -> str:
        return CANARY.format(code=self.code)


async def examine_host(host: HostProfile, settings: Settings, *, quick: bool) -> list[Check]:
    """The findings; with `quick` without running anything."""
    around = HostEnvironment(Path.home(), Path.cwd())
    checks = [*_installation(host, around)] if host.settings is not None else []
    if quick:
        return checks
    if settings.service.redis_url is None and not embedded_is_up(settings.service):
        return [*checks, Check("service", False, "none is running; start one with `meeseeks up`")]
    try:
        handlers = _handlers(host, settings, around)
        async with open_client(settings) as backend:
            return [*checks, Check("service", True, backend.where), *await _canaries(host, handlers, backend)]
    except MeeseeksError as error:
        return [*checks, Check("service", False, str(error))]


def _installation(host: HostProfile, around: HostEnvironment) -> list[Check]:
    there = installed(host, around)
    copies = [str(file.path) for file in there] + plugins(host, around)
    if not copies:
        return [Check("installed", False, f"nowhere; run `meeseeks install {host.name}`")]
    checks = [Check("installed", True, "; ".join(copies))]
    if len(copies) > 1:
        told = "in several places, so that everything is injected twice; uninstall or disable all but one"
        checks.append(Check("once", False, told))
    missing = _missing(host, [one for mine in there.values() for one in mine]) if there else []
    if missing:
        told = f"{', '.join(missing)} missing; run `meeseeks install {host.name}` again"
        checks.append(Check("events", False, told))
    off = switched_off(host, around)
    if off:
        checks.append(Check("hooks are on", False, "; ".join(off)))
    return checks


def _missing(host: HostProfile, mine: Sequence[InstalledHandler]) -> list[str]:
    there = {(one.event, one.matcher) for one in mine}
    needed = [(event.name, event.matcher) for event in host.events if event.installed]
    return [name for name, matcher in needed if (name, matcher) not in there]


def _handlers(host: HostProfile, settings: Settings, around: HostEnvironment) -> list[Handler]:
    """What the host would run, each once: what its settings name, what a plugin brings, what is pasted by hand."""
    mine = [one for found in installed(host, around).values() for one in found]
    handlers = {json.dumps(one.handler, sort_keys=True): one.handler for one in mine}
    deadline = DEFAULT_HOOK_DEADLINE_MS
    if plugins(host, around) or host.settings is None:
        by_plugin = host.settings is not None
        command = command_line(host, settings.service, deadline_ms=deadline, project=by_plugin)
        handler = {"type": "command", "command": command, "timeout": HandlerKind(command, None, deadline).timeout_s}
        handlers.setdefault(json.dumps(handler, sort_keys=True), handler)
    return list(handlers.values())


async def _canaries(host: HostProfile, handlers: Sequence[Handler], backend: OperationClient) -> list[Check]:
    delivery_check = DeliveryCheck(uuid.uuid4().hex[:8])
    memory = {"id": f"canary-{delivery_check.code}", "content": delivery_check.text}
    await backend.call(REMEMBER, {"tenant": CANARY_TENANT, "memory": memory})
    try:
        checks = [await _injects(host, handler, delivery_check) for handler in handlers]
    finally:
        await backend.call(FORGET, {"tenant": CANARY_TENANT, "ids": [memory["id"]]})
    return [*checks, *[await _stays_silent(host, handler) for handler in handlers]]


async def _injects(host: HostProfile, handler: Handler, delivery_check: DeliveryCheck) -> Check:
    """A prompt that the canary belongs to: it must come, in a form that the host takes, every time."""
    runs: list[CommandRun] = []
    faults: list[str] = []
    for _ in range(1 + WARM_RUNS):
        event = host.example(_session(), QUESTION.format(code=delivery_check.code))
        ran = await _run(host, handler, event)
        runs.append(ran)
        faults = findings(host, handler, event, ran, delivery_check.text)
        if faults:
            break
    if faults:
        why = await _explained(host, handler, runs[-1])
        return Check(_name(handler), False, "; ".join([*faults, *why]))
    cold, *warm = [run.seconds * 1000 for run in runs]
    return Check(_name(handler), True, f"{cold:.0f} ms at first, then {statistics.median(warm):.0f} ms")


async def _stays_silent(host: HostProfile, handler: Handler) -> Check:
    """A prompt that nothing belongs to: the host must be told its own "nothing"."""
    event = host.example(_session(), QUESTION.format(code="that was forgotten"))
    faults = findings(host, handler, event, await _run(host, handler, event), None)
    return Check(f"{_name(handler)}, nothing to inject", not faults, "; ".join(faults) or "nothing is injected")


def findings(
    host: HostProfile, handler: Handler, event: dict[str, Any], ran: CommandRun, expected: str | None
) -> list[str]:
    """What is wrong with a run, and what to do; `expected` is the text that must be in its output, or must not be."""
    limit = _limit_s(handler)
    if ran.code is None:
        return [f"{ran.errors} ({limit:g} s)"]
    faults = _status_faults(handler, ran)
    if limit * 1000 <= DEFAULT_HOOK_DEADLINE_MS and "MEESEEKS_TIMEOUT_MS" not in str(handler.get("command")):
        faults.append(f"the host waits {limit:g} s, which is less than the hook may take; install it again")
    if ran.errors.strip():
        faults.append(f"it writes to standard error: {ran.errors.strip().splitlines()[-1][:200]}")
    try:
        output = json.loads(ran.output) if ran.output.strip() else {}
    except ValueError:
        said = ran.output[:60].decode("utf-8", "replace")
        return [*faults, f"it prints something else than JSON, {said!r}; does the profile of the shell print it?"]
    silent = output == {} and not ran.output.strip()
    if not silent or host.nothing == {}:
        faults += host.faults(event, output)
    return [*faults, *_content_faults(output, expected)]


def _content_faults(output: Any, expected: str | None) -> list[str]:
    said = json.dumps(output, ensure_ascii=False)
    if expected is None:
        return ["something was injected"] if CANARY.partition("{")[0] in said else []
    return [] if expected in said else ["the canary did not come"]


def _status_faults(handler: Handler, ran: CommandRun) -> list[str]:
    if handler.get("type") == "http":
        if ran.code in (401, 403):
            return ["the service refuses the token; set MEESEEKS_TOKEN in the environment that the host is started in"]
        return [] if ran.code == 200 else [f"it answered with status {ran.code}, which the host shows at every prompt"]
    if ran.code == BLOCKING:
        return [f"it left with exit code {BLOCKING}, which blocks the user's prompt"]
    if ran.code == 127:
        return ["there is no such command on the PATH of the host; install it again without --project"]
    return [] if ran.code == 0 else [f"it left with exit code {ran.code}"]


async def _explained(host: HostProfile, handler: Handler, ran: CommandRun) -> list[str]:
    """What the command itself says of its trouble, where it was silent about it."""
    if handler.get("type") == "http" or ran.code != 0 or ran.errors.strip():
        return []
    event = host.example(_session(), QUESTION.format(code="again"))
    told = (await _run(host, handler, event, MEESEEKS_DEBUG="1")).errors.strip()
    return [f"it says: {told.splitlines()[-1][:200]}"] if told else []


async def _run(host: HostProfile, handler: Handler, event: dict[str, Any], **variables: str) -> CommandRun:
    data = json.dumps(event).encode()
    if handler.get("type") == "http":
        allowed = tuple(handler.get("allowedEnvVars", ()))
        headers = {name: filled(str(value), allowed, os.environ) for name, value in handler.get("headers", {}).items()}
        return await post(str(handler["url"]), data, headers=headers, limit_s=_limit_s(handler))
    login = host.settings is not None and host.settings.login_shell
    shell = (os.environ.get("SHELL") or "sh", "-lc") if login else ("sh", "-c")
    limit_s = _limit_s(handler)
    return await run_command(str(handler["command"]), data, shell=shell, limit_s=limit_s, variables=variables)


def _limit_s(handler: Handler) -> float:
    timeout = handler.get("timeout")
    return float(timeout) if isinstance(timeout, int | float) and timeout > 0 else 30.0


def _session() -> str:
    return f"{CANARY_SESSION}{uuid.uuid4().hex}"


def _name(handler: Handler) -> str:
    return "url" if handler.get("type") == "http" else "command"
