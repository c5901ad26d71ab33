"""Composition root: with `worker.opening`, the only module that knows every adapter."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog
from redis.asyncio import Redis

from hooks.contract import InjectionResult, Reason
from hooks.wire import INJECT, SESSION_EVENT

from .adapters.bm25 import Bm25Encoder
from .adapters.config_watcher import ASK_S, LOOK_S, ConfigWatcher, FileWatch
from .adapters.edge_shelf import EdgeShelf
from .adapters.memory_ledger import MemoryLedger
from .adapters.redis_ledger import ledger_key
from .adapters.redis_overrides import RedisOverrides
from .answers import Operation
from .calibration import read_calibration
from .config import LiveSettings
from .copying import Journal
from .deadline import Deadline
from .decision_scale import read_scales
from .errors import ModelError, QueueError, StoreError
from .fallback import DeterministicSelector
from .feedback import Feedback, FeedbackParts
from .feedback_operations import FeedbackOperations
from .host_operations import HostOperations
from .hosting import Host, Serving
from .injection import InjectionParts, InjectionService
from .judging_selector import JudgeSelector
from .keeper import Keeper
from .live_triage import LivePrompts, LiveTriage, PromptSet, ask_by_kind, ask_chat, ask_decision
from .memory_operations import MemoryOperations
from .model_profile import ModelKind, kind_of
from .opening import (
    Models,
    OpenedJudge,
    make_shelf,
    open_embedder,
    open_judge,
    open_ledger,
    open_models,
    open_receipts,
    open_subagents,
    open_usage,
    server_shelf,
)
from .operations import Operations
from .prompts import Prompt, default_prompts_dir
from .protocols import ChatModel, Embedder, Ledger, ReceiptStore, Selector, StoreEngine, UsageStore
from .query import prepare
from .recall import Recall
from .replaying import Build, Replayer, ReplayParts
from .service_settings import ServiceSettings
from .sessions import SessionService
from .settings import InjectionConfig, Settings, Strategy
from .shelf import Recipe, Shelf, WholeStore
from .store_operations import StoreOperations
from .storekeeping import House, StoreKeeper
from .strategies import Strategies
from .usage_judge import UsageJudge
from .verdict_cache import VerdictCache

log = structlog.get_logger()

CHECK_S = 5.0
"""Seconds between two looks at whether the vectors of a shared store still fit."""

EDGE = "edge"
"""What the embedded store is called where another one is a URL."""


@dataclass(frozen=True, slots=True)
class Core:
    """An open service without its doors. `about` says what it is made of, without secrets."""

    operations: dict[str, Operation]
    engine: StoreEngine
    embedder: Embedder | None
    model: Models | None
    about: dict[str, Any]


@asynccontextmanager
async def open_core(
    settings: Settings,
    *,
    redis: "Redis | None" = None,
    with_model: bool = True,
    answered: Callable[[InjectionResult], None] | None = None,
) -> AsyncIterator[Core]:
    """Everything that answers requests, warmed up; without `redis`, sessions and receipts are kept locally.

    `answered` is told every result that an injection brings.
    """
    async with AsyncExitStack() as stack:
        service = settings.service
        await asyncio.to_thread(prepare)
        embedder = await open_embedder(service, stack)
        sparse, shelf = Bm25Encoder(service.language), make_shelf(service)
        store = await shelf.open_live(_recipe(embedder, sparse))
        stack.push_async_callback(store.aclose)
        live, prompts = await _open_live(settings, redis, stack)
        judge = await open_judge(service, embedder, stack)
        models = await open_models(service, _named_models(settings), stack) if with_model else None
        ledger, receipts = open_ledger(service, redis), open_receipts(service, redis)
        verdicts, usage = VerdictCache(service.verdict_cache_size), open_usage(service, redis)
        parts = Parts(sparse, models, judge, live, prompts, ledger, receipts, Journal(), answered, verdicts, usage)
        assemble = partial(_assemble, service, parts, stack)
        host = Host(await assemble(shelf.live_name, store, embedder), assemble, sparse)
        stack.push_async_callback(host.aclose)
        if shelf.shared:
            fitting = asyncio.create_task(host.keep_fitting(CHECK_S), name="keep-fitting")
            stack.callback(fitting.cancel)
        jobs = StoreOperations(StoreKeeper(_house(service, shelf, host, parts, embedder, stack)))
        stack.push_async_callback(jobs.aclose)
        about = _about(service, shelf.live_name, embedder, parts)
        table = host.table() | jobs.table()
        hosts = HostOperations(table[INJECT], table[SESSION_EVENT], open_subagents(redis))
        yield Core(table | hosts.table(), store, embedder, models, about)


@dataclass(frozen=True, slots=True)
class Parts:
    """What stays the same whichever generation of the store serves."""

    sparse: Bm25Encoder
    models: Models | None
    judge: OpenedJudge
    live: LiveSettings
    prompts: LivePrompts | PromptSet
    ledger: Ledger
    receipts: ReceiptStore
    journal: Journal
    answered: Callable[[InjectionResult], None] | None
    verdicts: VerdictCache
    usage: UsageStore


async def _assemble(
    service: ServiceSettings,
    parts: Parts,
    stack: AsyncExitStack,
    name: str,
    store: WholeStore,
    embedder: Embedder | None,
) -> Serving:
    """Everything that answers requests from this generation of the store."""
    fault = await _dense_fault(store) if embedder else None
    usable = None if fault else embedder
    profile = read_calibration(service.home, usable.profile) if usable else None
    recall = Recall(store, parts.sparse, embedder, fault, profile, parts.usage)
    injecting = InjectionParts(
        recall=recall,
        strategies=_strategies(service, parts, usable, DeterministicSelector(profile)),
        ledger=parts.ledger,
        receipts=parts.receipts,
        config_for=parts.live.for_agent,
        clock=utc_now,
        profile=profile,
        answered=parts.answered,
    )
    injection = InjectionService(injecting)
    stack.push_async_callback(injection.drain)
    operations = Operations(
        injection=injection,
        recall=recall,
        memories=_memories(service, parts, store, usable),
        engine=store,
        receipts=parts.receipts,
        config_for=parts.live.for_agent,
        clock=utc_now,
        ledger_name=ledger_key,
        sessions=SessionService(parts.ledger, parts.live.for_agent),
        settings=parts.live,
        models=parts.models.states if parts.models else tuple,
        about=_about(service, name, embedder, parts),
    )
    table = operations.table()
    feedback = _feedback(service, parts, store, _building(service, parts, usable, injecting))
    return Serving(name, store, embedder, usable is not None, table | feedback.table(table))


def _building(service: ServiceSettings, parts: Parts, usable: Embedder | None, injecting: InjectionParts) -> Build:
    """Makes services that are like the one in use but for what a replay changes."""

    async def build(
        config: InjectionConfig, prompt: Prompt | None, ledger: Ledger, receipts: ReceiptStore
    ) -> InjectionService:
        await _opened(service, parts, config)
        choosing = replace(parts, prompts=parts.prompts.with_prompt(prompt), verdicts=VerdictCache(0))
        strategies = _strategies(service, choosing, usable, DeterministicSelector(injecting.profile))
        own = replace(injecting, strategies=strategies, ledger=ledger, receipts=receipts)
        return InjectionService(replace(own, config_for=lambda _: config, answered=None, logs=False))

    return build


async def _opened(service: ServiceSettings, parts: Parts, config: InjectionConfig) -> None:
    """Open the models of these settings, which takes longer the first time than a request may wait."""
    models = parts.models
    if models is None:
        return
    for name in models.names.of(config):
        decides = kind_of(service.profile(name)) is ModelKind.DECISION
        await (models.decision.open(name) if decides else models.chat.open(name))


def _feedback(service: ServiceSettings, parts: Parts, store: WholeStore, build: Build) -> FeedbackOperations:
    """What is done with requests that were."""
    config_for = parts.live.for_agent
    prompts = service.prompts_dir or default_prompts_dir()
    judge = UsageJudge(partial(_chat_model, parts), prompts)
    feedback = Feedback(FeedbackParts(parts.receipts, parts.ledger, parts.usage, store, config_for, utc_now, judge))
    return FeedbackOperations(
        replayer=Replayer(ReplayParts(parts.receipts, store, config_for, build, MemoryLedger, prompts)),
        feedback=feedback,
        receipts=parts.receipts,
        usage=parts.usage,
        engine=store,
        config_for=config_for,
    )


async def _chat_model(parts: Parts, agent_id: str, deadline: Deadline) -> ChatModel:
    """The first chat model of an agent. Raises `ModelError` where it has none."""
    config = parts.live.for_agent(agent_id)
    if parts.models is None or parts.models.names.strategy(config) is not Strategy.LLM:
        raise ModelError(Reason.MODEL_UNREACHABLE, "no chat model is configured")
    return (await parts.models.chat.get(parts.models.names.of(config)[0], deadline)).model


def _memories(service: ServiceSettings, parts: Parts, store: WholeStore, usable: Embedder | None) -> MemoryOperations:
    mask = service.mask_secrets_at_write
    keeper = Keeper(store, parts.sparse, usable, mask=mask, changed=parts.journal)
    return MemoryOperations(keeper, utc_now, mask=mask)


def _recipe(embedder: Embedder | None, sparse: Bm25Encoder) -> Recipe:
    return Recipe(embedder.profile if embedder else None, sparse.config_hash)


def _house(
    service: ServiceSettings,
    shelf: Shelf,
    host: Host,
    parts: Parts,
    configured: Embedder | None,
    stack: AsyncExitStack,
) -> House:
    """What the store is kept with."""

    async def embedder_named(name: str | None) -> Embedder | None:
        if name is None or name == service.embedder:
            return configured
        return await open_embedder(service.model_copy(update={"embedder": name}), stack)

    async def elsewhere(to: str, recipe: Recipe) -> WholeStore:
        here = service.qdrant_url or EDGE
        if to == here:
            raise StoreError(f"{to} is where the memories are already")
        other: Shelf = EdgeShelf(service.home) if to == EDGE else server_shelf(service, to)
        return await other.open_live(recipe)

    return House(
        shelf=shelf,
        store=host.store,
        maker=host.maker,
        sparse=parts.sparse,
        embedder=embedder_named,
        adopt=host.adopt,
        retired=host.retired,
        elsewhere=elsewhere,
        receipts=parts.receipts,
        journal=parts.journal,
        gate=host.gate,
        clock=utc_now,
    )


async def _open_live(
    settings: Settings, redis: "Redis | None", stack: AsyncExitStack
) -> tuple[LiveSettings, LivePrompts]:
    """Settings and prompts, watched for changes from now on."""
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


async def open_settings(settings: Settings, redis: "Redis | None") -> LiveSettings:
    """The settings in force: with `redis`, what is saved there too. A Redis that is away is asked again later."""
    live = LiveSettings(settings, RedisOverrides(redis) if redis is not None else None)
    try:
        await live.refresh()
    except QueueError as error:
        log.warning("saved_settings_unavailable", error=str(error))
    return live


def utc_now() -> datetime:
    return datetime.now(UTC)


def _about(service: ServiceSettings, name: str, embedder: Embedder | None, parts: Parts) -> dict[str, Any]:
    return {
        "embedder": embedder.profile.name if embedder else None,
        "model": parts.models.names.usual if parts.models else None,
        "judge": parts.judge.about,
        "store_at": service.qdrant_url or str(service.home / name),
        "pid": os.getpid(),
    }


async def _dense_fault(engine: StoreEngine) -> Reason | None:
    """Why the store's vectors must not be used; a store that does not answer yet is judged when it does."""
    try:
        health = await engine.health()
    except StoreError as error:
        log.warning("store_unavailable", error=str(error))
        return None
    if health.fault:
        log.warning("dense_leg_off", fault=health.fault)
    return None if health.dense_usable else Reason.EMBEDDER_MISMATCH


def _named_models(settings: Settings) -> tuple[str, ...]:
    """Every model that the file's settings name for anybody."""
    return tuple(name for config in (settings.memory_injection, *settings.agents.values()) for name in config.models)


def _strategies(
    service: ServiceSettings, parts: Parts, embedder: Embedder | None, deterministic: Selector
) -> Strategies:
    """Every way to choose that is there."""
    models, prompts, model = parts.models, parts.prompts, parts.judge.fits(embedder)
    judge = JudgeSelector(model, embedder, deterministic) if model and embedder else None
    if models is None:
        return Strategies(deterministic, judge=judge)
    ways = {
        ModelKind.CHAT: ask_chat(models.chat, prompts.triage_for, service.model_context),
        ModelKind.DECISION: ask_decision(models.decision, lambda: prompts.decision, read_scales(service.home)),
    }

    def prompt_of(name: str, config: InjectionConfig) -> Prompt:
        return prompts.decision if models.names.kind(name, config) is ModelKind.DECISION else prompts.triage_for(config)

    triage = LiveTriage(models.names.of, ask_by_kind(models.names.kind, ways), prompt_of, parts.verdicts)
    return Strategies(deterministic, judge=judge, llm=triage, decision=triage, usual=models.names.strategy)


def configure_logging(service: ServiceSettings) -> None:
    """Structured lines on standard error: JSON, or coloured text on a terminal."""
    console = service.log_format == "console" or (service.log_format == "auto" and sys.stderr.isatty())
    renderer: Any = structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(service.log_level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
