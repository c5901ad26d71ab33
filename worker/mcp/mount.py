"""Mount the MCP server in the HTTP service; it starts with its first request."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from . import mcp_app
from .scope import Backend

PATH = "/mcp"


def mcp_mount(backend: Backend, tenant_of: Callable[[Mapping[str, Any]], str | None]) -> dict[str, Starlette]:
    """Return the application of `mcp_app` by its path, created at the first request."""
    lazy = LazyMount(lambda: mcp_app(backend, tenant_of, path=PATH))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await lazy.aclose()

    return {PATH: Starlette(routes=[Mount("", app=lazy)], lifespan=lifespan)}


class LazyMount:
    """An application that its first request creates and starts in a separate task."""

    def __init__(self, make: Callable[[], Starlette]) -> None:
        self._make = make
        self._app: Starlette | None = None
        self._running: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._over = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app or await self._started()
        await app(scope, receive, send)

    async def aclose(self) -> None:
        self._over.set()
        if self._running is not None:
            await asyncio.wait([self._running])

    async def _started(self) -> Starlette:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run(), name="mcp")
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait((ready, self._running), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._app is None:
            await self._running  # raises the error of a failed start
            raise RuntimeError("the service is stopping")
        return self._app

    async def _run(self) -> None:
        app = await asyncio.to_thread(self._make)
        async with app.router.lifespan_context(app):
            self._app = app
            self._ready.set()
            await self._over.wait()
            self._app = None
            self._ready.clear()
