"""Commands that serve: the whole stack, or one worker."""

import asyncio
import gc
from functools import partial
from typing import Annotated, Any

import structlog
import typer

from hooks.contract import Reason
from hooks.queue import connect
from worker.adapters.arq_worker import MeeseeksWorker
from worker.adapters.valkey import EmbeddedValkey
from worker.app import open_core
from worker.cli.backend import without_password
from worker.cli.options import AsJson, run, settings_of
from worker.cli.output import fail, print_json, say
from worker.errors import QueueError
from worker.settings import Settings

WATCH_S = 0.5
"""Seconds between two looks at whether the embedded Valkey still runs."""

log = structlog.get_logger()

Model = Annotated[str | None, typer.Option(help="Chat model in litellm's notation; `none` does without.")]
ApiBase = Annotated[str | None, typer.Option("--model-api-base", help="Base address of the model server.")]


def up(context: typer.Context, model: Model = None, model_api_base: ApiBase = None, as_json: AsJson = False) -> None:
    """Run everything here: a worker, the embedded store, and an embedded Valkey unless --redis-url is given."""
    settings = settings_of(context, as_json=as_json, quiet=False, model=model, model_api_base=model_api_base)
    run(_up(settings, as_json), as_json=as_json)


async def _up(settings: Settings, as_json: bool) -> None:
    if settings.service.redis_url is not None:
        await serve(settings, settings.service.redis_url, as_json)
        return
    valkey = EmbeddedValkey(settings.service.home)
    await asyncio.to_thread(valkey.start)
    watching = asyncio.create_task(_keep_running(valkey), name="watch-valkey")
    try:
        await serve(settings, valkey.url, as_json)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await asyncio.to_thread(valkey.stop)


async def _keep_running(valkey: EmbeddedValkey) -> None:
    """Bring the embedded Valkey back whenever it has died; the worker waits for it meanwhile."""
    down = False
    while True:
        await asyncio.sleep(WATCH_S)
        down = down or valkey.has_died
        if down:
            log.error("valkey_died")
            down = not await asyncio.to_thread(_brought_back, valkey)


def _brought_back(valkey: EmbeddedValkey) -> bool:
    valkey.stop()
    try:
        valkey.start()
    except QueueError as error:
        log.error("valkey_cannot_start", error=str(error))
        return False
    return True


def worker(
    context: typer.Context, model: Model = None, model_api_base: ApiBase = None, as_json: AsJson = False
) -> None:
    """Run one worker on a Redis that is there already. Several may share it; a Qdrant server then holds the store."""
    settings = settings_of(context, as_json=as_json, quiet=False, model=model, model_api_base=model_api_base)
    url = settings.service.redis_url
    if url is None:
        fail("a worker needs --redis-url or MEESEEKS_REDIS_URL; `meeseeks up` brings its own Valkey", as_json=as_json)
    run(serve(settings, url, as_json), as_json=as_json)


async def serve(settings: Settings, redis_url: str, as_json: bool) -> None:
    """Answer jobs until SIGTERM or SIGINT comes; says on standard output when it is ready."""
    try:
        redis: Any = connect(redis_url)
    except ValueError as error:
        raise QueueError(Reason.QUEUE_UNAVAILABLE, "the address of Redis is not a valid URL") from error
    try:
        async with open_core(settings, redis=redis) as core:
            # a full collection would go through all that start-up has made, which stops every request for over a second
            gc.freeze()
            about = core.about | {"redis": without_password(redis_url)}
            await MeeseeksWorker(
                core.operations,
                redis_url,
                max_jobs=settings.service.max_jobs,
                on_serving=partial(_announce, about, as_json),
            ).serve()
    finally:
        await redis.aclose()


def _announce(about: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"ready": True, **about})
        return
    say(f"meeseeks is ready: queue {about['redis']}")
    say(f"  store     {about['store_at']}")
    say(f"  embedder  {about['embedder'] or 'none: keyword search alone'}")
    say(f"  model     {about['model'] or 'none: the deterministic engine decides (set MEESEEKS_MODEL)'}")
