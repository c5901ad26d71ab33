"""Commands that run a service: everything, one worker, or only HTTP."""

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import structlog
import typer

from hooks.queue import QueueClient, QueueFault
from worker.adapters.redis.embedded_valkey import EmbeddedValkey
from worker.adapters.redis.job_worker import MeeseeksWorker
from worker.adapters.redis.queue_state import look_at_queue
from worker.bootstrap.core import open_core
from worker.bootstrap.embedded import embedded_is_up, embedded_redis_url
from worker.bootstrap.logs import configure_logging
from worker.bootstrap.models import ConfiguredModels
from worker.bootstrap.opening import http_server
from worker.bootstrap.process_memory import give_back_freed_memory, no_collections
from worker.bootstrap.tracing import open_tracer
from worker.domain.errors import MeeseeksError, QueueError
from worker.domain.operation import Handlers
from worker.domain.tasks import ended
from worker.injection.capacity import Capacity
from worker.operations.client import (
    COMMIT_S,
    OperationClient,
    QueueLook,
    QueueOperationClient,
    connected,
    without_password,
)
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import HEALTH
from worker.ports.tracing import Tracer
from worker.settings.injection import Settings
from worker.settings.selection import Strategy

from .checks import model_in_words
from .mcp import mounts
from .options import settings_of
from .output import answer, fail, printed_as_json, say
from .running import run_async

if TYPE_CHECKING:
    from worker.api.pages import Pages
    from worker.api.server import HttpServer

FIND_S = 2.0
"""Seconds to ask a service that is running already who it is."""

ENDING_S = 5.0
"""Seconds to wait for a service that is starting or ending: the Valkey of one that was killed ends a moment later."""

LOOK_S = 0.1
"""Seconds between two looks at such a service."""

WATCH_S = 0.5
"""Seconds between two checks of the embedded Valkey."""

log = structlog.get_logger()

Model = Annotated[str | None, typer.Option(help="Chat model in litellm notation; use `none` for no model.")]
ApiBase = Annotated[str | None, typer.Option("--model-api-base", help="Base URL of the model server.")]
Host = Annotated[str | None, typer.Option("--http-host", help="Address on which to serve HTTP.")]
Port = Annotated[int | None, typer.Option("--http-port", help="HTTP port; 0 for any free port.")]


def up(
    context: typer.Context,
    model: Model = None,
    model_api_base: ApiBase = None,
    http_enabled: Annotated[
        bool | None, typer.Option("--http/--no-http", help="Serve HTTP (default: from settings).")
    ] = None,
    host: Host = None,
    port: Port = None,
) -> None:
    """Run everything: a worker, the embedded store, HTTP, and an embedded Valkey unless --redis-url is given."""
    options: dict[str, Any] = {"model": model, "model_api_base": model_api_base, "http_enabled": http_enabled}
    settings = _logging_settings_of(context, http_host=host, http_port=port, **options)
    run_async(_up(settings))


def _logging_settings_of(context: typer.Context, **more: Any) -> Settings:
    """Return the settings, and log as they say."""
    settings = settings_of(context, **more)
    configure_logging(settings.service)
    return settings


async def _up(settings: Settings) -> None:
    if settings.service.redis_url is not None:
        await serve(settings, settings.service.redis_url, with_http=settings.service.http_enabled)
        return
    await _wait_for_folder(settings)
    valkey = EmbeddedValkey(settings.service.home)
    await asyncio.to_thread(valkey.start)
    watching = asyncio.create_task(_keep_running(valkey), name="watch-valkey")
    try:
        await serve(settings, valkey.url, with_http=settings.service.http_enabled)
    finally:
        await ended(watching)
        await asyncio.to_thread(valkey.stop)


async def _wait_for_folder(settings: Settings) -> None:
    """Wait until the Valkey of a service that was killed has ended; fail if another service has this data folder."""
    end = time.monotonic() + ENDING_S
    while embedded_is_up(settings.service):
        pid = await _pid_of_service(settings)
        if pid is not None or time.monotonic() > end:
            who = "another `meeseeks up` is starting or stopping" if pid is None else f"already running (pid {pid})"
            fail(f"{who} on {settings.service.home}; stop it first, or choose another folder with --data-dir")
        await asyncio.sleep(LOOK_S)


async def _pid_of_service(settings: Settings) -> int | None:
    """Return the process id of the service on the embedded Valkey, or `None` if none answers."""
    url = embedded_redis_url(settings.service)
    queue = QueueClient(url)
    try:
        health = await QueueOperationClient(queue, url).call(HEALTH, {}, budget=FIND_S)
    except MeeseeksError:
        return None
    finally:
        await queue.aclose()
    return int(health["pid"])


async def _keep_running(valkey: EmbeddedValkey) -> None:
    """Restart the embedded Valkey whenever it dies; the worker waits for it."""
    down = False
    while True:
        await asyncio.sleep(WATCH_S)
        down = down or valkey.has_died
        if down:
            log.error("valkey_died")
            down = not await asyncio.to_thread(_restart, valkey)


def _restart(valkey: EmbeddedValkey) -> bool:
    valkey.stop()
    try:
        valkey.start()
    except QueueError as error:
        log.error("valkey_cannot_start", error=str(error))
        return False
    return True


def worker(
    context: typer.Context,
    model: Model = None,
    model_api_base: ApiBase = None,
    with_http: Annotated[bool, typer.Option("--http", help="Serve HTTP too.")] = False,
    host: Host = None,
    port: Port = None,
) -> None:
    """Run one worker on an existing Redis. Several workers can share it with a Qdrant server as the store."""
    options: dict[str, Any] = {"model": model, "model_api_base": model_api_base}
    settings = _logging_settings_of(context, http_host=host, http_port=port, **options)
    url = settings.service.redis_url
    if url is None:
        fail("a worker needs --redis-url or MEESEEKS_REDIS_URL; `meeseeks up` starts its own Valkey")
    run_async(serve(settings, url, with_http=with_http))


async def serve(settings: Settings, redis_url: str, *, with_http: bool) -> None:
    """Serve jobs and optionally HTTP until SIGTERM or SIGINT; print a line when ready."""
    give_back_freed_memory()
    async with AsyncExitStack() as stack:
        with no_collections():
            serving = await _opened(settings, redis_url, stack, with_http=with_http)
        await MeeseeksWorker(
            serving.operations,
            redis_url,
            max_jobs=settings.service.max_jobs,
            capacity=serving.capacity,
            on_serving=serving.ready,
            tracer=serving.tracer,
        ).serve()


@dataclass(frozen=True, slots=True)
class _Serving:
    """What a worker needs of an open service; `about` is told when it is ready."""

    operations: Handlers
    capacity: Capacity
    models: ConfiguredModels | None
    about: dict[str, Any]
    strategy: Strategy
    tracer: Tracer

    def ready(self) -> None:
        """Say so, and open the models, which takes longer than the rest of a start."""
        _announce(self.about, self.strategy)
        if self.models is not None:
            self.models.open_all()


async def _opened(settings: Settings, redis_url: str, stack: AsyncExitStack, *, with_http: bool) -> _Serving:
    """Open a service until the stack closes."""
    redis = connected(redis_url)
    stack.push_async_callback(redis.aclose)
    tracer = await stack.enter_async_context(open_tracer(os.environ))
    server = http_server(settings.service, tracer) if with_http else None
    answered = server.metrics.injected if server else None
    opening = open_core(settings, redis=redis, models_later=True, answered=answered, tracer=tracer)
    core = await stack.enter_async_context(opening)
    about = core.about | {"redis": without_password(redis_url)}
    operations = core.operations
    if server is not None:
        operations = server.metrics.timed(operations)
        backend = await _local_client(operations, redis_url, core.others, stack)
        server.metrics.watch_waiting(core.waiting)
        tools, look = mounts(backend, server.tenant_of), partial(look_at_queue, redis)
        pages = console_of(server, backend, look)
        serving = server.serving(backend, look, mounts=tools, pages=pages, alone=False)
        about["http"] = await stack.enter_async_context(serving)
    strategy = settings.memory_injection.strategy
    return _Serving(operations, core.others, core.model, about, strategy, tracer)


def console_of(server: "HttpServer", backend: OperationClient, look: QueueLook) -> "Pages":
    """Return the console's pages; its packages are imported only when HTTP is served."""
    pages: Pages = import_module("worker.bootstrap.console").console_pages(server, backend, look)
    return pages


async def _local_client(
    operations: Handlers, redis_url: str, capacity: Capacity, stack: AsyncExitStack
) -> LocalOperationClient:
    """Return a client that calls the operations in this process, without the queue."""
    client = QueueClient(redis_url)
    stack.push_async_callback(client.aclose)
    with suppress(QueueFault):
        await client.warm()
    return LocalOperationClient(operations, partial(client.commit, timeout=COMMIT_S), capacity=capacity)


def http(context: typer.Context, host: Host = None, port: Port = None) -> None:
    """Serve only HTTP, for workers that run elsewhere on the same Redis."""
    settings = _logging_settings_of(context, http_host=host, http_port=port)
    run_async(_http(settings))


async def _http(settings: Settings) -> None:
    redis_url = settings.service.redis_url or embedded_redis_url(settings.service)
    redis, client = connected(redis_url), QueueClient(redis_url)
    try:
        async with open_tracer(os.environ) as tracer:
            server = http_server(settings.service, tracer)
            backend = QueueOperationClient(client, redis_url)
            tools, look = mounts(backend, server.tenant_of), partial(look_at_queue, redis)
            pages = console_of(server, backend, look)
            async with server.serving(backend, look, mounts=tools, pages=pages, alone=True) as url:
                _announce_http(url, redis_url)
                await _until_stopped()
    finally:
        await client.aclose()
        await redis.aclose()


async def _until_stopped() -> None:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


def _announce_http(url: str, redis_url: str) -> None:
    shown = without_password(redis_url)
    fields = {"ready": True, "pid": os.getpid(), "redis": shown, "http": url}
    answer(fields, f"meeseeks is ready: {url}, for workers on {shown}")


def _announce(about: dict[str, Any], strategy: Strategy) -> None:
    if printed_as_json({"ready": True, **about}):
        return
    say(f"meeseeks is ready: queue {about['redis']}")
    if "http" in about:
        say(f"  http      {about['http']}")
        say(f"  console   {about['http']}/")
    say(f"  store     {about['store_at']}")
    say(f"  embedder  {about['embedder'] or 'none: keyword search only'}")
    say(f"  model     {model_in_words(about['model'], about['decides'], strategy)}")
