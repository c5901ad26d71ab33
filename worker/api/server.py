"""The HTTP server of this process."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from worker.domain.errors import SettingsError
from worker.operations.client import OperationClient, QueueLook
from worker.operations.metrics import Metrics
from worker.ports.tracing import NO_TRACER, Tracer
from worker.settings.service import ServiceSettings

from .access import Policy, grant_of
from .app import create_app
from .execution import OperationExecutor
from .pages import Pages
from .rate_limit import RateLimit
from .sessions import Sessions
from .tokens import Client, check_address, local_names, read_tokens

DRAIN_S = 4
"""Seconds that running requests get on shutdown."""

KEEP_ALIVE_S = 75
"""Seconds that an idle connection is kept."""

RETRY_S = 2.0
"""Seconds between attempts to bind an address that is in use."""

log = structlog.get_logger()


class HttpServer:
    """Serves HTTP. Raises `SettingsError` on construction if the settings are wrong."""

    def __init__(self, service: ServiceSettings, tracer: Tracer = NO_TRACER) -> None:
        self._service = service
        self._tracer = tracer
        tokens = read_tokens(service)
        check_address(service.http_host, tokens)
        self.metrics = Metrics()
        self.policy = Policy(
            tokens=tokens,
            names=None if tokens.known else local_names(service.http_host),
            body_limit=service.http_body_limit,
            import_limit=service.http_import_limit,
            rate=RateLimit(service.http_rate_limit),
            sessions=Sessions(tokens),
        )

    @property
    def needs_token(self) -> bool:
        return bool(self.policy.tokens.known)

    @property
    def masks_secrets(self) -> bool:
        """Whether secrets are masked before memories are stored."""
        return self._service.mask_secrets_at_write

    @property
    def sessions(self) -> Sessions:
        """Where browsers sign in."""
        return self.policy.sessions

    @staticmethod
    def caller_of(scope: Mapping[str, Any]) -> Client:
        """Return the caller of a request that passed access control."""
        return grant_of(dict(scope)).caller

    @staticmethod
    def tenant_of(scope: Mapping[str, Any]) -> str | None:
        """Return the tenant that a request is bound to, or `None`. For `mounts`."""
        return grant_of(dict(scope)).caller.tenant

    @asynccontextmanager
    async def serving(
        self,
        backend: OperationClient,
        look: QueueLook,
        *,
        mounts: Mapping[str, Starlette] | None = None,
        pages: Pages | None = None,
        alone: bool,
    ) -> AsyncIterator[str]:
        """Serve within the block, and yield the URL or why there is none yet.

        If the address is in use, raise `SettingsError` if the process does nothing else (`alone`); otherwise retry.
        """
        executor = OperationExecutor(backend, self.metrics, look, self._service.mask_secrets_at_write, counts=alone)
        app = create_app(executor, self.policy, mounts=mounts, pages=pages, tracer=self._tracer)
        try:
            listener: socket.socket | None = listen(self._service.http_host, self._service.http_port)
        except SettingsError as error:
            if alone:
                raise
            log.error("http_address_taken", error=str(error), next_try_s=RETRY_S)
            listener = None
        address = url_of(listener) if listener else f"none yet: port {self._service.http_port} is in use"
        server = _Server(app)
        running = asyncio.create_task(self._run(server, listener), name="http")
        try:
            if listener is not None:
                await server.wait_started(running)
            yield address
        finally:
            if pages is not None:
                pages.stop()
            server.should_exit = True
            if not server.started:
                running.cancel()
            await asyncio.wait((running,))
            if not running.cancelled() and (fault := running.exception()) is not None:
                log.error("http_ended", error=type(fault).__name__)

    async def _run(self, server: "_Server", listener: socket.socket | None) -> None:
        while listener is None:
            await asyncio.sleep(RETRY_S)
            try:
                listener = listen(self._service.http_host, self._service.http_port)
            except SettingsError:
                continue
            log.warning("http_serves_now", url=url_of(listener))
        await server.serve([listener])


class _Server(uvicorn.Server):
    """uvicorn without signal handlers, with its log in this service's format."""

    def __init__(self, app: ASGIApp) -> None:
        _configure_uvicorn_log()
        self._ready = asyncio.Event()
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=DRAIN_S,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.set()

    async def wait_started(self, running: "asyncio.Task[None]") -> None:
        """Wait until the server accepts requests. Raise the error that kept it from starting."""
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait((ready, running), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if running.done():
            running.result()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raise `SettingsError` with the reason if that fails."""
    bare = host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    try:
        listener = socket.create_server((bare, port), family=family, backlog=2048)
    except OSError as error:
        raise SettingsError(
            f"service.http_port: cannot serve HTTP at {host}:{port}: {error.strerror or error}; choose another"
            " http_port, 0 for any free one, or http_enabled = false"
        ) from error
    listener.setblocking(False)
    # asyncio sets this only for sockets with an explicit TCP protocol; without it, small responses wait 40 ms
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _QuietFilter(logging.Handler):
    """Logs the type of uvicorn's warnings without their arguments, which may repeat request data."""

    def emit(self, record: logging.LogRecord) -> None:
        kind: Any = record.exc_info[0] if record.exc_info else None
        words = str(record.msg).splitlines()[0] if record.msg else ""
        log.log(record.levelno, "http_server", what=words, error=kind.__name__ if kind else None)


def _configure_uvicorn_log() -> None:
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [_QuietFilter(logging.WARNING)], False
    logger.setLevel(logging.WARNING)
