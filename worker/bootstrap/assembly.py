"""Assemble the parts of a service from its settings."""

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import structlog

from hooks.contract import InjectionResult, Reason
from worker.adapters.local.ledger import MemoryLedger
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge.generations import EdgeGenerations
from worker.adapters.redis.ledger import ledger_key
from worker.capture.refusals import Refusals
from worker.domain.errors import StoreError
from worker.domain.memory import EmbedderProfile
from worker.domain.model_profile import ModelKind, kind_of
from worker.domain.operation import AnyHandler, by_name
from worker.domain.timings import Stages
from worker.injection.capacity import Capacity
from worker.injection.search_only import SearchOnlySelector
from worker.injection.service import InjectionParts, InjectionService
from worker.injection.sessions import SessionService
from worker.injection.strategies import Strategies
from worker.operations.health import Progress, health_handler
from worker.operations.injection import InjectionOperations
from worker.operations.listing import ListingOperations
from worker.operations.memories import MemoryOperations
from worker.operations.receipts import ReceiptOperations
from worker.operations.sessions import SessionOperations
from worker.operations.settings import SettingsOperations
from worker.operations.trials import TrialOperations
from worker.operations.usage import UsageOperations
from worker.ports.models import Embedder, Selector
from worker.ports.state import DeletedMemories, Ledger, ReceiptStore, UsageStore
from worker.ports.store import Recipe, StoreEngine, StoreGenerations, WholeStore
from worker.ports.tracing import NO_TRACER, Tracer
from worker.recall.recall import Recall
from worker.recall.standing import Standings
from worker.recall.thresholds import read_calibration, without_thresholds
from worker.receipts.answer_usage import AnswerUsage, AnswerUsageParts
from worker.receipts.asking import MemoryQuestions
from worker.receipts.dry_runs import DryRuns
from worker.receipts.erasing import ReceiptErasing
from worker.receipts.replay import Replayer, ReplayParts
from worker.receipts.trials import TrialParts, Trials
from worker.relevance.selector import RelevanceSelector
from worker.settings.injection import InjectionConfig
from worker.settings.live import LiveSettings
from worker.settings.service import ServiceSettings
from worker.store.copying import ChangeLog
from worker.store.maintenance import MaintenanceContext
from worker.store.memories import MemoryService
from worker.triage.decision_scale import read_scales
from worker.triage.live_selector import LivePrompts, LiveSelector, PromptSet, ask_by_kind, ask_chat, ask_decision
from worker.triage.prompt_files import Prompt, default_prompts_dir

from .capturing import CaptureMaking
from .cues import CueMaking
from .live_core import LiveCore, Serving
from .models import ConfiguredModels
from .opening import OpenedRelevanceModel, open_embedder, server_generations, utc_now
from .upkeep import UpkeepMaking

log = structlog.get_logger()

EDGE = "edge"
"""Name of the embedded store where others have a URL."""


CASES = "cases"
"""Folder below the data folder with labelled cases, a file per tenant."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts that all generations of the store share."""

    sparse: Bm25Encoder
    models: ConfiguredModels | None
    relevance_model: OpenedRelevanceModel
    live: LiveSettings
    prompts: LivePrompts | PromptSet
    ledger: Ledger
    receipts: ReceiptStore
    erasing: ReceiptErasing
    journal: ChangeLog
    answered: Callable[[InjectionResult], None] | None
    usage: UsageStore
    deleted: DeletedMemories | None
    cues: CueMaking | None
    captures: CaptureMaking
    upkeep: UpkeepMaking
    capacity: Capacity
    tracer: Tracer

    def stages(self) -> Stages:
        """Return what measures the stages of a request; each is a span too, if anything is traced."""
        return Stages() if self.tracer is NO_TRACER else Stages(self.tracer.span)


async def _assemble(
    service: ServiceSettings,
    parts: Parts,
    stack: AsyncExitStack,
    name: str,
    store: WholeStore,
    embedder: Embedder | None,
) -> Serving:
    """Return the handlers of this generation of the store."""
    fault = await _dense_fault(store) if embedder else None
    usable = None if fault else embedder
    profile = read_calibration(service.home, usable.profile) if usable else None
    recall = Recall(store, parts.sparse, embedder, fault, profile)
    unfiltered = without_thresholds(profile) if profile and parts.relevance_model.fits(usable) else profile
    injecting = InjectionParts(
        recall=Recall(store, parts.sparse, embedder, fault, unfiltered),
        strategies=_strategies(service, parts, usable, SearchOnlySelector(profile)),
        ledger=parts.ledger,
        receipts=parts.receipts,
        config_for=parts.live.for_agent,
        clock=utc_now,
        profile=profile,
        answered=parts.answered,
        chosen=parts.cues.learning if parts.cues else None,
        capacity=parts.capacity,
        stages=parts.stages,
    )
    injection, about = InjectionService(injecting), _about(service, name, embedder, parts)
    stack.push_async_callback(injection.drain)
    states = parts.models.states if parts.models else tuple
    decides = _decides(injecting, about["model"])
    handlers = (
        *InjectionOperations(injection, recall, parts.live.for_agent, utc_now, ledger_key, parts.stages).handlers(),
        *SessionOperations(SessionService(parts.ledger, parts.live.for_agent), store).handlers(),
        *_memories(service, parts, store, usable),
        *_receipts(service, parts, store, _dry_runs(service, parts, usable, injecting), injecting.profile, usable),
        *_usage(parts, store).handlers(),
        *SettingsOperations(parts.live).handlers(),
        health_handler(store, states, parts.live, about, decides, _progress(parts)),
    )
    return Serving(name, store, embedder, usable is not None, by_name(handlers), decides)


def _decides(injecting: InjectionParts, model: str | None) -> Callable[[], str]:
    """Return what says what chooses memories for agents without settings of their own."""
    return lambda: injecting.strategies.in_words(injecting.config_for(""), model)


def _progress(parts: Parts) -> Progress:
    log, queue = parts.cues.log if parts.cues else None, parts.captures.queue
    return Progress(
        cues=None if log is None else lambda: log.read(utc_now()),
        captures=None if queue is None else lambda: queue.read(utc_now()),
    )


def _dry_runs(service: ServiceSettings, parts: Parts, usable: Embedder | None, injecting: InjectionParts) -> DryRuns:
    """Return dry runs on services that differ from the serving one only in what a replay or a trial changes."""

    async def build(
        config: InjectionConfig, prompt: Prompt | None, ledger: Ledger, receipts: ReceiptStore
    ) -> InjectionService:
        await _open_models(service, parts, config)
        choosing = replace(parts, prompts=parts.prompts.with_prompt(prompt))
        strategies = _strategies(service, choosing, usable, SearchOnlySelector(injecting.profile))
        own = replace(injecting, strategies=strategies, ledger=ledger, receipts=receipts)
        return InjectionService(replace(own, config_for=lambda _: config, answered=None, chosen=None, logs=False))

    return DryRuns(build, MemoryLedger)


async def _open_models(service: ServiceSettings, parts: Parts, config: InjectionConfig) -> None:
    """Open the models of these settings; the first time takes longer than a request may wait."""
    models = parts.models
    if models is None:
        return
    for name in models.names.of(config):
        decides = kind_of(service.profile(name)) is ModelKind.DECISION
        await (models.decision.open(name) if decides else models.chat.open(name))


def _receipts(
    service: ServiceSettings,
    parts: Parts,
    store: WholeStore,
    runs: DryRuns,
    profile: EmbedderProfile | None,
    usable: Embedder | None,
) -> tuple[AnyHandler, ...]:
    standings = Standings(store, parts.sparse, usable, profile)
    config_for, prompts = parts.live.for_agent, service.prompts_dir or default_prompts_dir()
    questions = MemoryQuestions(parts.receipts, store, config_for, standings)
    replayer = Replayer(ReplayParts(parts.receipts, store, config_for, runs, prompts))
    own = ReceiptOperations(parts.receipts, replayer, store, config_for, questions, service.home / CASES)
    model_of = parts.models.names.first if parts.models else lambda _: None
    trials = Trials(TrialParts(runs, config_for, model_of, parts.prompts, prompts))
    return *own.handlers(), *TrialOperations(trials).handlers()


def _usage(parts: Parts, store: WholeStore) -> UsageOperations:
    learning = parts.cues.learning if parts.cues else None
    answers = AnswerUsageParts(
        parts.receipts, parts.ledger, parts.usage, store, parts.live.for_agent, utc_now, learning
    )
    return UsageOperations(AnswerUsage(answers), parts.usage, store)


def _memories(
    service: ServiceSettings, parts: Parts, store: WholeStore, usable: Embedder | None
) -> tuple[AnyHandler, ...]:
    mask = service.mask_secrets_at_write
    memories = MemoryService(store, parts.sparse, usable, mask=mask, changed=parts.journal, erasing=parts.erasing)
    listing = ListingOperations(memories, parts.live.for_agent, utc_now)
    refusals = Refusals(parts.captures.captures)
    own = MemoryOperations(memories, parts.usage, utc_now, mask=mask, deleted=parts.deleted, refusals=refusals)
    captures = parts.captures.handlers(store, parts.sparse, usable, memories, parts.live)
    upkeep = parts.upkeep.step_handlers(store, parts.sparse, usable, memories)
    return *own.handlers(), *listing.handlers(), *captures, *upkeep


def _recipe(embedder: Embedder | None, sparse: Bm25Encoder) -> Recipe:
    return Recipe(embedder.profile if embedder else None, sparse.config_hash)


def _maintenance_context(
    service: ServiceSettings,
    generation_store: StoreGenerations,
    host: LiveCore,
    parts: Parts,
    configured: Embedder | None,
    stack: AsyncExitStack,
) -> MaintenanceContext:
    async def embedder_named(name: str | None) -> Embedder | None:
        if name is None or name == service.embedder:
            return configured
        return await open_embedder(service.model_copy(update={"embedder": name}), stack)

    async def elsewhere(to: str, recipe: Recipe) -> WholeStore:
        here = service.qdrant_url or EDGE
        if to == here:
            raise StoreError(f"the memories are already at {to}")
        other: StoreGenerations = EdgeGenerations(service.home) if to == EDGE else server_generations(service, to)
        return await other.open_live(recipe)

    return MaintenanceContext(
        generation_store=generation_store,
        store=host.store,
        maker=host.maker,
        sparse=parts.sparse,
        embedder=embedder_named,
        adopt=host.adopt,
        retired=host.retired,
        elsewhere=elsewhere,
        receipts=parts.receipts,
        journal=parts.journal,
        write_barrier=host.write_barrier,
        clock=utc_now,
    )


def _about(service: ServiceSettings, name: str, embedder: Embedder | None, parts: Parts) -> dict[str, Any]:
    return {
        "embedder": embedder.profile.name if embedder else None,
        "model": parts.models.names.usual if parts.models else None,
        "relevance_model": parts.relevance_model.about,
        "store_at": service.qdrant_url or str(service.home / name),
        "pid": os.getpid(),
    }


async def _dense_fault(engine: StoreEngine) -> Reason | None:
    """Return why the store's vectors must not be used; for a store that does not answer, `None`."""
    try:
        health = await engine.health()
    except StoreError as error:
        log.warning("store_unavailable", error=str(error))
        return None
    if health.fault:
        log.warning("dense_search_off", fault=health.fault)
    return None if health.dense_usable else Reason.EMBEDDER_MISMATCH


def _strategies(
    service: ServiceSettings, parts: Parts, embedder: Embedder | None, deterministic: Selector
) -> Strategies:
    """Return the available strategies."""
    models, prompts, model = parts.models, parts.prompts, parts.relevance_model.fits(embedder)
    relevance_model = RelevanceSelector(model, embedder, deterministic) if model and embedder else None
    if models is None:
        return Strategies(deterministic, relevance_model=relevance_model)
    ways = {
        ModelKind.CHAT: ask_chat(models.chat, prompts.triage_for, service.model_context),
        ModelKind.DECISION: ask_decision(models.decision, lambda: prompts.decision, read_scales(service.home)),
    }
    triage = LiveSelector(models.names.of, ask_by_kind(models.names.kind, ways))
    return Strategies(
        deterministic, relevance_model=relevance_model, llm=triage, decision=triage, usual=models.names.strategy
    )
