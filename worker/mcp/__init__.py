"""MCP server with the tools `recall`, `list`, `remember`, `update` and `forget`, over stdio and streamable HTTP.

fastmcp takes about a second to import, so it is imported when a server is created.
"""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from .environment import prepare_environment
from .scope import Backend, ToolScope

__all__ = ["Backend", "ToolScope", "mcp_app", "serve_stdio"]


def mcp_app(backend: Backend, tenant_of: Callable[[Mapping[str, Any]], str | None], *, path: str = "/mcp") -> Any:
    """Return a Starlette application that serves the tools at `path` without sessions; enter its lifespan.

    `tenant_of` returns the tenant to which a request's token is bound, given its ASGI scope. The caller checks tokens
    and the Host header. The first call blocks for seconds.
    """
    return _server().http_app(backend, tenant_of, path)


async def serve_stdio(backend: Backend, scope: ToolScope) -> None:
    """Serve the tools on standard input and output until the input ends."""
    await _server().serve_stdio(backend, scope)


def _server() -> Any:
    prepare_environment(os.environ)
    return import_module("worker.mcp.server")
