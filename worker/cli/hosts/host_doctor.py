"""`meeseeks doctor HOST`: checks that the hooks of a host are installed and work.

Each installed hook is run as the host would run it, first cold and then warm, with a test memory in a separate tenant.
Its output is checked against the host's rules.
"""

import json
import os
import statistics
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from worker.adapters.local.hook_runner import CommandRun, filled, post, run_command
from worker.cli.backend import is_served, open_client
from worker.cli.checks import Check
from worker.cli.stored_user import difference
from worker.domain.deadline import DEFAULT_HOOK_DEADLINE_MS
from worker.domain.errors import MeeseeksError
from worker.hosts import HOSTS, HostProfile
from worker.hosts.settings_edit import Handler, HandlerKind, InstalledHandler
from worker.operations.client import OperationClient
from worker.operations.hosts import DOCTOR_SESSION, DOCTOR_TENANT
from worker.operations.registry import FORGET, REMEMBER
from worker.settings.injection import Settings

from .host_setup import HostEnvironment, command_line, installed, mcp_server, plugins, switched_off

TEST_MEMORY = "The doctor's test bell rings at {code} o'clock"
QUESTION = "When does the doctor's test bell {code} ring?"
WARM_RUNS = 3
BLOCKING = 2
"""Exit code with which a hook blocks the user's prompt."""


async def examine_host(host: HostProfile, settings: Settings, *, quick: bool) -> list[Check]:
    """Return the findings; with `quick`, check only the settings."""
    environment = HostEnvironment(Path.home(), Path.cwd())
    checks = [*_installation(host, environment)] if host.settings is not None else []
    if warning := difference(settings.service.home, os.environ.get("MEESEEKS_USER"), "MEESEEKS_USER"):
        checks.append(Check("user", False, warning))
    checks += _mcp_user(host, environment, settings)
    if quick:
        return checks
    if not is_served(settings):
        return [*checks, Check("service", False, "not running; start it with `meeseeks start`")]
    try:
        handlers = _handlers(host, settings, environment)
        async with open_client(settings) as backend:
            return [*checks, Check("service", True, backend.where), *await _run_handlers(host, handlers, backend)]
    except MeeseeksError as error:
        return [*checks, Check("service", False, str(error))]


def _installation(host: HostProfile, environment: HostEnvironment) -> list[Check]:
    files = installed(host, environment)
    copies = [str(file.path) for file in files] + plugins(host, environment)
    if not copies:
        return [Check("installed", False, f"not installed; run `meeseeks hosts install {host.name}`")]
    checks = [Check("installed", True, "; ".join(copies))]
    if len(copies) > 1:
        detail = "installed in several places, so memories are injected twice; uninstall or disable all but one"
        checks.append(Check("once", False, detail))
    missing = _missing(host, [one for handlers in files.values() for one in handlers]) if files else []
    if missing:
        detail = f"missing: {', '.join(missing)}; run `meeseeks hosts install {host.name}` again"
        checks.append(Check("events", False, detail))
    off = switched_off(host, environment)
    if off:
        checks.append(Check("hooks are on", False, "; ".join(off)))
    return checks


def _mcp_user(host: HostProfile, environment: HostEnvironment, settings: Settings) -> Iterator[Check]:
    """Check that the MCP servers of the host use the memories of the same user as its hooks."""
    files = host.settings.mcp if host.settings is not None else None
    for file in [] if files is None else [environment.target(files, project=project) for project in (False, True)]:
        user = _user_of(mcp_server(host, file))
        if warning := difference(settings.service.home, user, str(file.path)):
            yield Check("MCP server", False, warning)


def _user_of(entry: Mapping[str, Any]) -> str | None:
    """Return the user that an MCP server's entry names, whatever else is in it."""
    words, variables, headers = entry.get("args"), entry.get("env"), entry.get("headers")
    if isinstance(words, list) and "--user" in words[:-1]:
        return str(words[words.index("--user") + 1])
    if isinstance(headers, dict) and "Meeseeks-User" in headers:
        return unquote(str(headers["Meeseeks-User"]))
    return str(variables["MEESEEKS_USER"]) if isinstance(variables, dict) and "MEESEEKS_USER" in variables else None


def _missing(host: HostProfile, handlers: Sequence[InstalledHandler]) -> list[str]:
    present = {(one.event, one.matcher) for one in handlers}
    return [one.name for one in host.events if one.installed and (one.name, one.matcher) not in present]


def _handlers(host: HostProfile, settings: Settings, environment: HostEnvironment) -> list[Handler]:
    """Return the distinct handlers that the host runs: from its settings, a plugin or a pasted snippet."""
    in_settings = [one for found in installed(host, environment).values() for one in found]
    handlers = {json.dumps(one.handler, sort_keys=True): one.handler for one in in_settings}
    if plugins(host, environment) or host.settings is None:
        handler = _handler(host, settings, by_plugin=host.settings is not None)
        handlers.setdefault(json.dumps(handler, sort_keys=True), handler)
    return list(handlers.values())


def _handler(host: HostProfile, settings: Settings, *, by_plugin: bool) -> Handler:
    deadline = DEFAULT_HOOK_DEADLINE_MS
    command = command_line(host, settings.service, deadline_ms=deadline, project=by_plugin)
    return {"type": "command", "command": command, "timeout": HandlerKind(command, None, deadline).timeout_s}


async def examine_command(settings: Settings) -> list[Check]:
    """Return the findings about the hook's command, as a host would call it that is not here."""
    host = HOSTS["claude-code"]
    async with open_client(settings) as backend:
        return await _run_handlers(host, [_handler(host, settings, by_plugin=False)], backend)


@asynccontextmanager
async def stored_test_memory(backend: OperationClient) -> AsyncIterator[str]:
    """Store a test memory in the doctor's tenant, yield the code that is its id and in its text, and delete it."""
    code = uuid.uuid4().hex[:8]
    memory = {"id": code, "content": TEST_MEMORY.format(code=code)}
    await backend.call(REMEMBER, {"tenant": DOCTOR_TENANT, "memory": memory})
    try:
        yield code
    finally:
        await backend.call(FORGET, {"tenant": DOCTOR_TENANT, "ids": [code], "permanent": True})


async def _run_handlers(host: HostProfile, handlers: Sequence[Handler], backend: OperationClient) -> list[Check]:
    async with stored_test_memory(backend) as code:
        checks = [await _injects(host, handler, code) for handler in handlers]
    return [*checks, *[await _stays_silent(host, handler) for handler in handlers]]


async def _injects(host: HostProfile, handler: Handler, code: str) -> Check:
    """Check that a prompt about the test memory injects it every time, in a form that the host accepts."""
    runs: list[CommandRun] = []
    for _ in range(1 + WARM_RUNS):
        event = host.example(_session(), QUESTION.format(code=code))
        runs.append(await _run(host, handler, event))
        faults = findings(host, handler, event, runs[-1], TEST_MEMORY.format(code=code))
        if faults:
            why = await _debug_message(host, handler, runs[-1])
            return Check(_name(handler), False, "; ".join([*faults, *why]))
    cold, *warm = [run.seconds * 1000 for run in runs]
    usual = statistics.median(warm)
    return Check(_name(handler), True, f"first run {cold:.0f} ms, then {usual:.0f} ms", usual)


async def _stays_silent(host: HostProfile, handler: Handler) -> Check:
    """Check that an unrelated prompt gives the host's output for "nothing to inject"."""
    event = host.example(_session(), QUESTION.format(code="that was forgotten"))
    faults = findings(host, handler, event, await _run(host, handler, event), None)
    return Check(f"{_name(handler)}, nothing to inject", not faults, "; ".join(faults) or "nothing was injected")


def findings(
    host: HostProfile, handler: Handler, event: dict[str, Any], ran: CommandRun, expected: str | None
) -> list[str]:
    """Return the faults of a run; `expected` must be in its output, or `None` if no test memory may be."""
    limit = _limit_s(handler)
    if ran.code is None:
        return [f"{ran.errors} ({limit:g} s)"]
    faults = _status_faults(handler, ran)
    if limit * 1000 <= DEFAULT_HOOK_DEADLINE_MS and "MEESEEKS_TIMEOUT_MS" not in str(handler.get("command")):
        faults.append(f"the host waits only {limit:g} s, less than the hook may take; install the hook again")
    if ran.errors.strip():
        faults.append(f"it wrote to standard error: {ran.errors.strip().splitlines()[-1][:200]}")
    try:
        output = json.loads(ran.output) if ran.output.strip() else {}
    except ValueError:
        start = ran.output[:60].decode("utf-8", "replace")
        return [*faults, f"it did not print JSON but {start!r}; check whether your shell profile prints this"]
    silent = output == {} and not ran.output.strip()
    if not silent or host.nothing == {}:
        faults += host.faults(event, output)
    return [*faults, *_content_faults(output, expected)]


def _content_faults(output: Any, expected: str | None) -> list[str]:
    text = json.dumps(output, ensure_ascii=False)
    if expected is None:
        return ["a test memory was injected"] if TEST_MEMORY.partition("{")[0] in text else []
    return [] if expected in text else ["the test memory was not injected"]


def _status_faults(handler: Handler, ran: CommandRun) -> list[str]:
    if handler.get("type") == "http":
        if ran.code in (401, 403):
            return ["the service refused the token; set MEESEEKS_TOKEN in the environment of the host"]
        return [] if ran.code == 200 else [f"it returned status {ran.code}, which the host shows at every prompt"]
    if ran.code == BLOCKING:
        return [f"it exited with code {BLOCKING}, which blocks the user's prompt"]
    if ran.code == 127:
        return ["the command is not on the PATH of the host; install the hook again without --project"]
    return [] if ran.code == 0 else [f"it exited with code {ran.code}"]


async def _debug_message(host: HostProfile, handler: Handler, ran: CommandRun) -> list[str]:
    """Return the debug message of a command that failed silently."""
    if handler.get("type") == "http" or ran.code != 0 or ran.errors.strip():
        return []
    event = host.example(_session(), QUESTION.format(code="again"))
    message = (await _run(host, handler, event, MEESEEKS_DEBUG="1")).errors.strip()
    return [f"debug output: {message.splitlines()[-1][:200]}"] if message else []


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
    return f"{DOCTOR_SESSION}{uuid.uuid4().hex}"


def _name(handler: Handler) -> str:
    return "url" if handler.get("type") == "http" else "command"
