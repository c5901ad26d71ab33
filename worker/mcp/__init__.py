"""Memory as tools of the Model Context Protocol: `recall`, `remember`, `forget`, over stdio and streamable HTTP.

fastmcp takes about a second to import, so it is imported when a server is made, not with this package.
"""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from .environment import prepare_environment
from .scope import Backend, ToolScope

__all__ = ["Backend", "ToolScope", "mcp_app", "serve_stdio"]


def mcp_app(backend: Backend, tenant_of: Callable[[Mapping[str, Any]], str | None], *, path: str = "/mcp") -> Any:
    """A Starlette application that serves the tools as streamable HTTP at `path`; its lifespan has to be entered.

    `tenant_of` says for an ASGI scope which tenant the token of the request is bound to, if to any. Whoever mounts the
    application checks tokens and the Host header before a request reaches it. Requests stand for themselves: there are
    no sessions to keep. Takes seconds the first time, so call it in a thread where others must not wait.
    """
    return _server().http_app(backend, tenant_of, path)


async def serve_stdio(backend: Backend, whose: ToolScope) -> None:
    """Serve the tools on standard input and output until the input ends."""
    await _server().serve_stdio(backend, whose)


def _server() -> Any:
    prepare_environment(os.environ)
    return import_module("worker.mcp.server")
