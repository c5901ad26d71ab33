"""Open the adapters that the settings name: store, embedder, models, ledger and receipts.

litellm, qdrant-client and fastapi are slow to import, so adapters that use them are imported when they are opened.
"""

import asyncio
import os
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from redis.asyncio import Redis

from worker.adapters.local.deleted import ProcessDeletedMemories
from worker.adapters.local.host_state import MemoryHostState
from worker.adapters.local.ledger import MemoryLedger
from worker.adapters.local.receipts import FileReceipts
from worker.adapters.local.subagents import MemorySubagents
from worker.adapters.local.usage import FileUsage
from worker.adapters.models.caching_embedder import CachingEmbedder
from worker.adapters.models.fastembed import FastEmbedEmbedder
from worker.adapters.models.litellm_process import prepare_environment
from worker.adapters.models.minilm import MiniLmEmbedder
from worker.adapters.models.ollama import find_chat_model
from worker.adapters.models.relevance_file import RelevanceProcess, find_folder, read_relevance_model
from worker.adapters.models.traced import traced_chat, traced_decision
from worker.adapters.qdrant.edge.generations import EdgeGenerations, live_folder
from worker.adapters.redis.capture_queue import RedisCaptureQueue
from worker.adapters.redis.captures import RedisCaptures
from worker.adapters.redis.cue_log import RedisCueLog
from worker.adapters.redis.deleted import RedisDeletedMemories
from worker.adapters.redis.host_state import RedisHostState
from worker.adapters.redis.ledger import RedisLedger
from worker.adapters.redis.receipts import RedisReceipts
from worker.adapters.redis.subagents import RedisSubagents
from worker.adapters.redis.transcripts import redis_transcripts
from worker.adapters.redis.usage import RedisUsage
from worker.capture.reading import CAPTURE_PROMPT, CaptureReader
from worker.domain.errors import EmbedderError, RelevanceError, SettingsError
from worker.domain.model_profile import ModelKind, ModelProfile, kind_of, only_vetoes
from worker.domain.tasks import ended
from worker.hosts.state import HostState
from worker.hosts.subagents import PendingSubagents
from worker.operations.enrichment import Price
from worker.ports.capture import CaptureQueue, CaptureStore, Limits, TranscriptQueue
from worker.ports.models import ChatModel, DecisionModel, Embedder
from worker.ports.state import CueLog, DeletedMemories, Ledger, ReceiptStore, UsageStore
from worker.ports.store import StoreGenerations
from worker.ports.tracing import NO_TRACER, Tracer
from worker.relevance.adjustment import fitted_to_another, read_adjustment
from worker.relevance.model import Adjustment
from worker.settings.service import ServiceSettings
from worker.triage.cue_writer import CUES_PROMPT, CueWriter
from worker.triage.model_pool import ModelNames, ModelPool
from worker.triage.prompt_files import Prompt, default_prompts_dir, load_prompts

from .models import ConfiguredModels
from .process_memory import no_collections

if TYPE_CHECKING:
    from worker.api.server import HttpServer

log = structlog.get_logger()

LOOK_AGAIN = 30.0
"""Seconds between looks for a local model while there is none."""


def utc_now() -> datetime:
    return datetime.now(UTC)


def make_generations(service: ServiceSettings) -> StoreGenerations:
    """Return the generations of the configured store, without opening one."""
    if service.qdrant_url:
        return server_generations(service, service.qdrant_url)
    return EdgeGenerations(service.home)


def server_generations(service: ServiceSettings, url: str) -> StoreGenerations:
    adapter = _slow_adapter("qdrant.server.generations")
    generation_store: StoreGenerations = adapter.ServerGenerations(
        url, api_key=service.qdrant_api_key, name=service.collection
    )
    return generation_store


def store_path(service: ServiceSettings) -> Path:
    """Return the folder of the embedded store's live generation."""
    return live_folder(service.home)


def http_server(service: ServiceSettings, tracer: Tracer = NO_TRACER) -> "HttpServer":
    """Create the HTTP server without starting it. Raise `SettingsError` if its settings are invalid."""
    server: HttpServer = import_module("worker.api.server").HttpServer(service, tracer)
    return server


def open_ledger(service: ServiceSettings, redis: "Redis | None") -> Ledger:
    return RedisLedger(redis, service.ledger_ttl_s) if redis is not None else MemoryLedger()


def open_receipts(service: ServiceSettings, redis: "Redis | None") -> ReceiptStore:
    if redis is not None:
        return RedisReceipts(redis, service.receipt_ttl_s)
    return FileReceipts(service.home / "receipts", service.receipt_ttl_s)


def open_usage(service: ServiceSettings, redis: "Redis | None") -> UsageStore:
    return RedisUsage(redis) if redis is not None else FileUsage(service.home / "usage.json")


def open_cue_log(service: ServiceSettings, redis: "Redis | None") -> CueLog | None:
    """Return the log of the model that writes cues in the background; `None` if none does."""
    writes = service.cue_calls_per_day > 0 and service.model not in (None, "none")
    return RedisCueLog(redis, service.cue_calls_per_day) if redis is not None and writes else None


def open_captures(service: ServiceSettings, redis: "Redis | None") -> CaptureStore | None:
    """Return where captures are kept; `None` for a command without a service."""
    return RedisCaptures(redis, service.receipt_ttl_s) if redis is not None else None


def open_transcripts(redis: "Redis | None") -> TranscriptQueue | None:
    """Return which transcripts of hosts are to be read; `None` for a command without a service."""
    return redis_transcripts(redis) if redis is not None else None


def open_capture_queue(service: ServiceSettings, redis: "Redis | None") -> CaptureQueue | None:
    """Return what the model reads later; `None` if no model reads conversations."""
    reads = service.capture_calls_per_day > 0 and service.model not in (None, "none")
    limits = Limits(service.capture_calls_per_day, service.capture_tokens_per_day, service.capture_cost_per_day)
    return RedisCaptureQueue(redis, limits) if redis is not None and reads else None


def open_deleted(redis: "Redis | None", *, shared: bool) -> DeletedMemories | None:
    """Return where deleted memories are kept; `None` for a command without a service, which ends at once."""
    if redis is None:
        return None
    return RedisDeletedMemories(redis) if shared else ProcessDeletedMemories()


def open_subagents(redis: "Redis | None") -> PendingSubagents:
    return RedisSubagents(redis) if redis is not None else MemorySubagents()


def open_host_state(redis: "Redis | None") -> HostState:
    return RedisHostState(redis) if redis is not None else MemoryHostState()


async def open_embedder(service: ServiceSettings, stack: AsyncExitStack) -> Embedder | None:
    """Open and warm up the embedder. While it fails, queries use keywords only, and each tries it again."""
    embedder = make_embedder(service)
    if embedder is None:
        return None
    stack.push_async_callback(embedder.aclose)
    try:
        await embedder.warm()
    except EmbedderError as error:
        log.error("embedder_unavailable", error=str(error))
    return CachingEmbedder(embedder)


def make_embedder(service: ServiceSettings) -> Embedder | None:
    """Create the configured embedder. Raise `SettingsError` if its name is unknown."""
    kind, _, name = service.embedder.partition(":")
    if kind == "none":
        return None
    if kind == "minilm":
        return MiniLmEmbedder()
    if kind == "fastembed" and name:
        return FastEmbedEmbedder(name)
    if kind == "litellm" and name:
        adapter = _slow_adapter("models.litellm_embedder")
        base, dimension = service.embedder_api_base, service.embedder_dimension
        embedder: Embedder = adapter.LiteLLMEmbedder(name, api_base=base, dimension=dimension)
        return embedder
    raise SettingsError(
        f"service.embedder: {service.embedder!r}; use minilm, fastembed:<model>, litellm:<model> or none"
    )


@dataclass(frozen=True, slots=True)
class OpenedRelevanceModel:
    """The relevance model, if its file is valid, or why it is not used; `fitted` describes an adjustment."""

    model: RelevanceProcess | None = None
    unused: str | None = None
    broken: bool = False
    fitted: str = ""

    @property
    def about(self) -> str:
        if self.model is not None and self.unused is None:
            return f"version {self.model.relevance_model.version}{self.fitted}"
        return f"{'broken' if self.broken else 'off'}: {self.unused}; search scores are used instead"

    def fits(self, embedder: Embedder | None) -> RelevanceProcess | None:
        """Return the relevance model if it was made for this embedder."""
        if self.model is None or embedder is None:
            return None
        return self.model if embedder.profile.fingerprint == self.model.relevance_model.fingerprint else None


async def open_relevance_model(
    service: ServiceSettings, embedder: Embedder | None, stack: AsyncExitStack
) -> OpenedRelevanceModel:
    """Open the relevance model with its adjustment; if that fails, search scores are used instead."""
    try:
        file = await asyncio.to_thread(read_relevance_model)
        change = read_adjustment(service.home, file.relevance_model)
        model = RelevanceProcess(file, change)
        stack.callback(model.close)
        await model.warm()
    except (RelevanceError, SettingsError) as error:
        log.error("relevance_model_unavailable", error=str(error))
        return OpenedRelevanceModel(unused=str(error), broken=find_folder() is not None)
    name = embedder.profile.name if embedder else "none"
    unused = (
        f"it requires the embedder {file.card['embedder']['name']}, but the embedder is {name}; set `service.embedder ="
        " minilm` to use it"
    )
    fitted = _fitted(change, fitted_to_another(service.home, file.relevance_model))
    return OpenedRelevanceModel(model, None if OpenedRelevanceModel(model).fits(embedder) else unused, fitted=fitted)


def _fitted(change: Adjustment | None, other: str | None) -> str:
    if change is not None:
        return ", fitted to your labels"
    lost = f"; your fit is for version {other}: run `meeseeks eval calibrate --cases` again"
    return lost if other else ""


async def choose_model(service: ServiceSettings) -> str | None:
    """Return the configured model, or one of a local Ollama; `none` means no model."""
    if service.model == "none":
        return None
    return service.model or await find_chat_model(service.ollama_url)


async def find_models(
    service: ServiceSettings, named: Iterable[str], stack: AsyncExitStack, tracer: Tracer = NO_TRACER
) -> ConfiguredModels:
    """Return the default model and those `named`, which the caller opens: that takes longer than the rest of a start.

    Raise `SettingsError` if a key is missing.
    """
    names = ModelNames(service, await choose_model(service))
    chat = ModelPool[ChatModel](partial(_load_model, service, tracer), service.profile)
    decision = ModelPool[DecisionModel](partial(_load_decision_model, service, tracer), service.profile)
    stack.push_async_callback(chat.aclose)
    stack.push_async_callback(decision.aclose)
    wanted = dict.fromkeys([*([names.usual] if names.usual else []), *named])
    models = ConfiguredModels(names, chat, decision, tuple(service.profile(name) for name in wanted))
    for profile in models.configured:
        _api_key(service, profile)
    if names.usual is None and service.model is None:
        task = asyncio.create_task(_find_model_later(service, models), name="find-local-model")
        stack.push_async_callback(ended, task)
    return models


async def _find_model_later(service: ServiceSettings, models: ConfiguredModels) -> None:
    """Use a local Ollama that starts, or gets its first chat model, after this process."""
    while models.names.usual is None:
        await asyncio.sleep(LOOK_AGAIN)
        name = await find_chat_model(service.ollama_url)
        if name is not None:
            models.open(service.profile(name))  # while it opens, and if it cannot be opened, requests do without
            models.names.usual = name
            log.info("local_model_found", model=name)


def _load_model(service: ServiceSettings, tracer: Tracer, profile: ModelProfile) -> ChatModel:
    api_base = _api_base(service, profile)
    model: ChatModel = _slow_adapter("models.litellm_chat").LiteLLMModel(
        profile.name,
        api_base=api_base,
        api_key=_api_key(service, profile),
        num_ctx=profile.context or service.model_context,
        max_concurrent=profile.concurrent,
        tools=profile.tools,
        output=profile.output,
        may_only_veto=only_vetoes(profile),
        stream=profile.stream,
    )
    return traced_chat(model, tracer, api_base)


async def open_cue_writer(
    service: ServiceSettings, name: str | None, stack: AsyncExitStack, tracer: Tracer = NO_TRACER
) -> tuple[CueWriter, Price | None]:
    """Open a model to write cues, the configured one by default, and return its price, if known.

    Raise `SettingsError` if there is none, or it is no chat model.
    """
    model = await _open_chat_model(service, name, "write cues", stack, tracer)
    prices = _slow_adapter("models.litellm_chat").price_of(model.name)
    return CueWriter(model, prompt_of(service, CUES_PROMPT)), None if prices is None else Price(*prices)


async def open_capture_reader(
    service: ServiceSettings, stack: AsyncExitStack, name: str | None = None, tracer: Tracer = NO_TRACER
) -> CaptureReader:
    """Open a model to read conversations, the configured one by default.

    Raise `SettingsError` if there is none or it is no chat model, or `PromptError` if its prompt is invalid.
    """
    model = await _open_chat_model(service, name, "read conversations", stack, tracer)
    return CaptureReader(model, prompt_of(service, CAPTURE_PROMPT))


async def _open_chat_model(
    service: ServiceSettings, name: str | None, purpose: str, stack: AsyncExitStack, tracer: Tracer
) -> ChatModel:
    chosen = name or await choose_model(service)
    if chosen is None:
        raise SettingsError(f"no model is configured to {purpose}: set `model`, or use --model")
    profile = service.profile(chosen)
    if kind_of(profile) is not ModelKind.CHAT:
        raise SettingsError(f"{chosen} cannot {purpose}: use a chat model, with --model")
    model = await asyncio.to_thread(_load_model, service, tracer, profile)
    stack.push_async_callback(model.aclose)
    return model


def prompt_of(service: ServiceSettings, prompt_id: str) -> Prompt:
    """Return a prompt, the shipped one if the folder has none. Raise `PromptError` if it is invalid."""
    own = load_prompts(service.prompts_dir) if service.prompts_dir else {}
    return own.get(prompt_id) or load_prompts(default_prompts_dir())[prompt_id]


def _load_decision_model(service: ServiceSettings, tracer: Tracer, profile: ModelProfile) -> DecisionModel:
    api_base = _api_base(service, profile)
    model: DecisionModel = _slow_adapter("models.litellm_decision").LiteLLMDecisionModel(
        profile.name,
        api_base=api_base,
        api_key=_api_key(service, profile),
        max_concurrent=profile.concurrent,
    )
    return traced_decision(model, tracer, api_base)


def make_decision_model(service: ServiceSettings, name: str) -> DecisionModel:
    """Create a decision model with its configured profile. Block while the SDK is imported."""
    return _load_decision_model(service, NO_TRACER, service.profile(name))


def _api_base(service: ServiceSettings, profile: ModelProfile) -> str | None:
    local = service.ollama_url if profile.name.startswith("ollama") else None
    return profile.api_base or service.model_api_base or local


def _api_key(service: ServiceSettings, profile: ModelProfile) -> str | None:
    """Return the model's key. Raise `SettingsError` if its own environment variable is not set."""
    if profile.api_key_variable is None:
        return service.model_api_key
    if profile.api_key_variable not in os.environ:
        raise SettingsError(f"model {profile.name}: the environment variable {profile.api_key_variable} is not set")
    return os.environ[profile.api_key_variable]


def _slow_adapter(name: str) -> Any:
    """Import an adapter whose SDK is slow to import."""
    prepare_environment(os.environ)
    with no_collections():
        return import_module(f"worker.adapters.{name}")
