"""Commands for agents that search memory themselves: an MCP server on stdio and the Memory Search skill."""

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.bootstrap.logs import configure_logging
from worker.domain.operation import AnyOperation
from worker.mcp import Backend, ToolScope, serve_stdio
from worker.settings.injection import Settings
from worker.settings.service import ServiceSettings
from worker.triage.prompt_files import default_prompts_dir

from .backend import is_served, open_client
from .common import Common
from .options import Agent, Project, Tenant, User, portable_options, settings_of
from .output import answer, choose_json, fail, printed_as_json, warn
from .running import run_async
from .stored_user import difference

SKILL = "memory-search"

AsEntry = Annotated[bool, typer.Option("--json", callback=choose_json, help="Print the `.mcp.json` entry and exit.")]
Shared = Annotated[
    bool, typer.Option("--shared", envvar="MEESEEKS_SHARED", help="Share new memories with everyone in the tenant.")
]


def mcp(
    context: typer.Context,
    tenant: Tenant = "default",
    user: User = None,
    agent: Agent = "main",
    project: Project = None,
    shared: Shared = False,
    _: Annotated[
        bool, typer.Option("--json", callback=choose_json, help="Print the `.mcp.json` entry and exit.")
    ] = False,
) -> None:
    """Serve memory as MCP tools on standard input and output.

    The model cannot choose whose memories it accesses: these options or their variables decide.
    """
    settings = settings_of(context)
    scope = ToolScope(tenant or "default", user or None, agent or "main", project or None, shared)
    if printed_as_json(configuration(context.obj, settings, scope)):
        return
    if warning := difference(settings.service.home, scope.user, "this MCP server"):
        warn(f"meeseeks mcp: {warning}")
    configure_logging(ServiceSettings(log_level="error"))
    run_async(serve_stdio(ReconnectingClient(settings), scope))


class ReconnectingClient:
    """Run each operation in the service, or in this process if none runs.

    A host keeps this command running for hours. So the store is opened per operation: a service may start meanwhile,
    and several of these commands may run at once.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._alone = asyncio.Lock()

    async def call(self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = 10.0) -> dict[str, Any]:
        served = is_served(self._settings)
        async with nullcontext() if served else self._alone, open_client(self._settings) as backend:
            return await backend.call(operation, payload, budget=budget)


def configuration(common: Common, settings: Settings, scope: ToolScope) -> dict[str, Any]:
    """Return the MCP server entry with which a host starts this command, from any folder, on the same store."""
    default = ToolScope()
    after = {name: getattr(scope, name) for name in ("tenant", "user", "agent", "project")}
    words = [word for name, said in after.items() if said != getattr(default, name) for word in (f"--{name}", said)]
    arguments = [*portable_options(common, settings), "mcp", *words, *(["--shared"] if scope.shared else [])]
    return {"mcpServers": {"meeseeks": {"command": "meeseeks", "args": arguments}}}


def mounts(backend: Backend, tenant_of: Callable[[Mapping[str, Any]], str | None]) -> Any:
    """Return the tools as a mount for the HTTP service; its packages are imported only when HTTP is served."""
    return import_module("worker.mcp.mount").mcp_mount(backend, tenant_of)


def skill(
    context: typer.Context,
    folder: Annotated[Path | None, typer.Argument(help="Skills folder of a host, such as .claude/skills.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a skill that differs.")] = False,
) -> None:
    """Install the Memory Search skill in a host's skills folder, or print where it is."""
    source = default_prompts_dir() / SKILL
    if folder is None:
        answer({"skill": SKILL, "path": str(source)}, str(source))
        return
    target = folder / SKILL
    if target.exists() and not force and contents(target) != contents(source):
        fail(f"{target} already exists and differs; use --force to replace it")
    try:
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(source, target)
    except OSError as error:
        fail(f"{target}: {error.strerror or error}")
    answer({"skill": SKILL, "path": str(target)}, f"installed: {target}")


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder by relative path."""
    return {os.fspath(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
