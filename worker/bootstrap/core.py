"""Composition root: with `worker.bootstrap.opening`, the only module that knows every adapter."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from redis.asyncio import Redis

from hooks.contract import InjectionResult
from hooks.contract.blocks import know_key, own_key
from worker.adapters.local.config_watcher import ASK_S, LOOK_S, ConfigWatcher, FileWatch
from worker.adapters.local.project_file import NAME as PROJECTS_FILE
from worker.adapters.local.project_file import ProjectFile
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.redis.block_key import shared_block_key
from worker.adapters.redis.overrides import RedisOverrides
from worker.domain.errors import QueueError
from worker.domain.operation import Handlers, by_name
from worker.injection.capacity import Capacity
from worker.operations.background_cues import Activity
from worker.operations.hosts import HostOperations, OwnHandlers
from worker.operations.learning import CueLearning
from worker.operations.registry import INJECT, SESSION_EVENT
from worker.operations.store import StoreOperations
from worker.operations.tracing import traced
from worker.ports.models import Embedder
from worker.ports.state import Ledger
from worker.ports.store import StoreEngine, StoreGenerations, WholeStore
from worker.ports.tracing import NO_TRACER, Tracer
from worker.query.warm_up import warm_up
from worker.settings.injection import Settings
from worker.settings.live import LiveSettings
from worker.settings.service import ServiceSettings
from worker.store.copying import ChangeLog
from worker.store.maintenance import MaintenanceContext, StoreMaintenance
from worker.text.masking import holds_secret
from worker.triage.live_selector import LivePrompts
from worker.triage.prompt_files import default_prompts_dir

from .assembly import Parts, _about, _assemble, _maintenance_context, _recipe, log
from .capturing import CaptureMaking
from .cues import CueMaking
from .erasing import open_erasing
from .evaluating import evaluating
from .live_core import LiveCore
from .models import ConfiguredModels
from .opening import (
    find_models,
    make_generations,
    open_capture_queue,
    open_captures,
    open_cue_log,
    open_deleted,
    open_embedder,
    open_host_state,
    open_ledger,
    open_receipts,
    open_relevance_model,
    open_subagents,
    open_transcripts,
    open_usage,
)
from .upkeep import UpkeepMaking

CHECK_S = 5.0
"""Seconds between checks whether the vectors of a shared store still fit."""


@dataclass(frozen=True, slots=True)
class Core:
    """An open service without HTTP or a queue. `about` describes its parts without secrets.

    Requests other than injections share the capacity `others`.
    """

    operations: Handlers
    engine: StoreEngine
    embedder: Embedder | None
    model: ConfiguredModels | None
    about: dict[str, Any]
    injections: Capacity
    others: Capacity

    def waiting(self) -> int:
        """Return the number of requests that wait for their turn."""
        return self.injections.waiting + self.others.waiting


@asynccontextmanager
async def open_core(
    settings: Settings,
    *,
    redis: "Redis | None" = None,
    with_model: bool = True,
    models_later: bool = False,
    answered: Callable[[InjectionResult], None] | None = None,
    tracer: Tracer = NO_TRACER,
) -> AsyncIterator[Core]:
    """Open a service. Without `redis`, it is a command's: it keeps sessions and receipts locally, and is not warmed up.

    `answered` is called with every injection result; `tracer` records operations, their stages and calls of models.
    With `models_later`, the caller opens the models.
    """
    async with AsyncExitStack() as stack:
        service = settings.service
        if redis is not None:
            await asyncio.to_thread(warm_up)  # a command would wait for all languages and use one
        embedder, sparse = await open_embedder(service, stack), Bm25Encoder(service.language)
        generation_store, store = await _open_store(service, embedder, sparse, stack)
        live, prompts = await _open_live(settings, redis, stack)
        relevance_model = await open_relevance_model(service, embedder, stack)
        models = await _models(settings, stack, tracer, opened=not models_later) if with_model else None
        ledger, receipts = open_ledger(service, redis), open_receipts(service, redis)
        cues = _open_cues(service, redis, tracer, with_model=with_model)
        journal, noted = ChangeLog(), cues.noting(answered) if cues else answered
        usage = open_usage(service, redis)
        state = ledger, receipts, open_erasing(service, redis, receipts, stack), journal, noted, usage
        captures = _open_capturing(service, redis, ledger, stack, tracer, with_model=with_model)
        injections = _capacity(service, embedded=not generation_store.shared)
        upkeep = UpkeepMaking.of(service, redis, captures.captures, usage, live)
        more = open_deleted(redis, shared=generation_store.shared), cues, captures, upkeep, injections
        parts = Parts(sparse, models, relevance_model, live, prompts, *state, *more, tracer)
        assemble = partial(_assemble, service, parts, stack)
        host = LiveCore(await assemble(generation_store.live_name, store, embedder), assemble, sparse)
        stack.push_async_callback(host.aclose)
        if generation_store.shared:
            host.keep_fitting(CHECK_S)
        jobs = _store_jobs(_maintenance_context(service, generation_store, host, parts, embedder, stack), stack)
        about = _about(service, generation_store.live_name, embedder, parts) | {"decides": host.serving.decides()}
        lasting = by_name((*jobs.handlers(), *evaluating(settings, live, stack)))
        handlers = traced(host.handlers() | lasting, tracer)
        handlers |= traced(by_name(upkeep.start(handlers, host, cues.activity if cues else None, stack)), tracer)
        if cues is not None:
            cues.start(service, handlers, host.store, journal, stack)
            captures.start(handlers, cues.activity, live)
        await _share_block_key(redis)
        hosts = _host_operations(service, handlers, redis, live, captures)
        operations, others = handlers | traced(by_name(hosts.handlers()), tracer), Capacity(service.max_jobs)
        yield Core(operations, store, embedder, models, about, injections, others)


async def _models(settings: Settings, stack: AsyncExitStack, tracer: Tracer, *, opened: bool) -> ConfiguredModels:
    models = await find_models(settings.service, _named_models(settings), stack, tracer)
    if opened:
        await models.opened()
    return models


async def _open_store(
    service: ServiceSettings, embedder: Embedder | None, sparse: Bm25Encoder, stack: AsyncExitStack
) -> tuple[StoreGenerations, WholeStore]:
    generation_store = make_generations(service)
    store = await generation_store.open_live(_recipe(embedder, sparse))
    stack.push_async_callback(store.aclose)
    return generation_store, store


def _host_operations(
    service: ServiceSettings, handlers: Handlers, redis: "Redis | None", live: LiveSettings, captures: CaptureMaking
) -> HostOperations:
    own = OwnHandlers(INJECT.handler_in(handlers), SESSION_EVENT.handler_in(handlers))
    names, notes = ProjectFile(service.home / PROJECTS_FILE).name_of, captures.notes(live)
    return HostOperations(own, open_subagents(redis), open_host_state(redis), live.for_agent, names, notes)


def _store_jobs(context: MaintenanceContext, stack: AsyncExitStack) -> StoreOperations:
    jobs = StoreOperations(StoreMaintenance(context))
    stack.push_async_callback(jobs.aclose)
    return jobs


def _open_cues(
    service: ServiceSettings, redis: "Redis | None", tracer: Tracer, *, with_model: bool
) -> CueMaking | None:
    """Return what makes cues; `None` for a command, which ends at once."""
    if redis is None:
        return None
    return CueMaking(CueLearning(), Activity(), open_cue_log(service, redis) if with_model else None, tracer)


def _open_capturing(
    service: ServiceSettings,
    redis: "Redis | None",
    ledger: Ledger,
    stack: AsyncExitStack,
    tracer: Tracer,
    *,
    with_model: bool,
) -> CaptureMaking:
    queue = open_capture_queue(service, redis) if with_model else None
    transcripts = open_transcripts(redis)
    return CaptureMaking(service, open_captures(service, redis), queue, transcripts, ledger, stack, tracer)


def _capacity(service: ServiceSettings, *, embedded: bool) -> Capacity:
    """Return room for injections: with the embedded store and embedder, one computes per core.

    With a server for one of them, most of the time is spent waiting for it.
    """
    computes = embedded and not service.embedder.startswith("litellm:")
    return Capacity(service.max_jobs, computing=max(2, _cores()) if computes else None)


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


async def _open_live(
    settings: Settings, redis: "Redis | None", stack: AsyncExitStack
) -> tuple[LiveSettings, LivePrompts]:
    """Open settings and prompts, and watch them for changes."""
    live = await open_settings(settings, redis)
    folder = settings.service.prompts_dir or default_prompts_dir()
    prompts = LivePrompts(folder, partial(live.report, "prompts"))
    watcher = ConfigWatcher(
        {
            "file": (FileWatch(settings.file.path, live.reload).step, LOOK_S),
            "prompts": (FileWatch(folder, prompts.reload).step, LOOK_S),
            "saved": (live.refresh, ASK_S),
        }
    )
    stack.push_async_callback(watcher.aclose)
    watcher.start()
    return live, prompts


async def _share_block_key(redis: "Redis | None") -> None:
    """Mark blocks like the other workers. Without Redis, only this process knows its key."""
    if redis is None:
        return
    try:
        know_key(await shared_block_key(redis, own_key()))
    except QueueError as error:
        log.warning("block_key_unavailable", error=str(error))


async def open_settings(settings: Settings, redis: "Redis | None") -> LiveSettings:
    """Open the settings, with those saved in `redis`; if it does not answer, the watcher asks it again later."""
    live = LiveSettings(settings, RedisOverrides(redis) if redis is not None else None, holds_secret)
    try:
        await live.refresh()
    except QueueError as error:
        log.warning("saved_settings_unavailable", error=str(error))
    return live


def _named_models(settings: Settings) -> tuple[str, ...]:
    """Return every model that the file names, for all agents or single ones."""
    return tuple(name for config in (settings.memory_injection, *settings.agents.values()) for name in config.models)
