"""Commands for agents that ask memory themselves: the MCP server over stdio, and the Memory Search skill."""

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.bootstrap.opening import embedded_is_up
from worker.mcp import Backend, ToolScope, serve_stdio
from worker.settings.injection import Settings
from worker.triage.prompt_files import default_prompts_dir

from .backend import open_client
from .options import Agent, AsJson, Common, Project, Tenant, User, run, settings_of
from .output import fail, print_json, say

SKILL = "memory-search"

Shared = Annotated[
    bool, typer.Option("--shared", envvar="MEESEEKS_SHARED", help="What is remembered is for everybody of the tenant.")
]


def mcp(
    context: typer.Context,
    tenant: Tenant = "default",
    user: User = None,
    agent: Agent = "main",
    project: Project = None,
    shared: Shared = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what a host's `.mcp.json` needs for these options, and end.")
    ] = False,
) -> None:
    """Serve recall, remember and forget as MCP tools on standard input and output, for a host that starts this command.

    Whose memories the tools touch is said here or by variables, never by the model.
    """
    settings = settings_of(context, as_json=as_json)
    whose = ToolScope(tenant or "default", user or None, agent or "main", project or None, shared)
    if as_json:
        print_json(configuration(context.obj, whose))
        return
    run(serve_stdio(ReconnectingClient(settings), whose), as_json=False)


class ReconnectingClient:
    """Does operations in the running service, or where there is none in this process.

    A host keeps this command running for hours, so the store is opened for the time of one operation alone: a service
    may start meanwhile, and several of these commands may run at once.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._alone = asyncio.Lock()

    async def call(self, operation: str, payload: dict[str, Any], *, budget: float = 10.0) -> dict[str, Any]:
        service = self._settings.service
        served = service.redis_url is not None or embedded_is_up(service)
        async with nullcontext() if served else self._alone, open_client(self._settings) as backend:
            return await backend.call(operation, payload, budget=budget)


def configuration(said: Common, whose: ToolScope) -> dict[str, Any]:
    """The entry of a host's list of MCP servers that starts this command with the same options."""
    usual = ToolScope()
    before = {"--config": said.config, **{f"--{name.replace('_', '-')}": at for name, at in said.overrides.items()}}
    after = {
        f"--{name}": getattr(whose, name)
        for name in ("tenant", "user", "agent", "project")
        if getattr(whose, name) != getattr(usual, name)
    }
    arguments = [*_words(before), "mcp", *_words(after), *(["--shared"] if whose.shared else [])]
    return {"mcpServers": {"meeseeks": {"command": "meeseeks", "args": arguments}}}


def _words(options: Mapping[str, object]) -> list[str]:
    return [word for option, value in options.items() if value is not None for word in (option, str(value))]


def mounts(backend: Backend, tenant_of: Callable[[Mapping[str, Any]], str | None]) -> Any:
    """The tools as a part of the HTTP service, see `worker.mcp.mount`; what they need is imported with HTTP only."""
    return import_module("worker.mcp.mount").mcp_mount(backend, tenant_of)


def skill(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(help="A host's folder of skills, such as .claude/skills; without one, it is shown.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a skill by that name that reads differently.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show where the Memory Search skill is, or put it into a host's folder of skills."""
    source = default_prompts_dir() / SKILL
    if folder is None:
        print_json({"skill": SKILL, "path": str(source)}) if as_json else say(str(source))
        return
    target = folder / SKILL
    if target.exists() and not force and contents(target) != contents(source):
        fail(f"{target} is there and reads differently; --force replaces it", as_json=as_json)
    try:
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(source, target)
    except OSError as error:
        fail(f"{target}: {error.strerror or error}", as_json=as_json)
    print_json({"skill": SKILL, "path": str(target)}) if as_json else say(f"{SKILL} is in {target}")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {os.fspath(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
