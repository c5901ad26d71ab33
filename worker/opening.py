"""What the settings name, opened: the store, the embedder, the model, the ledger, the receipts.

litellm and qdrant-client take seconds to import, fastapi a part of one, so what is built on them is imported when it
is opened, not with this module; a command that needs none of them never pays for them.
"""

import asyncio
import os
import socket
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from redis.asyncio import Redis

from hooks.wire import socket_path, unix_url

from .adapters.caching_embedder import CachingEmbedder
from .adapters.edge_shelf import EdgeShelf, live_folder
from .adapters.fastembed_embedder import FastEmbedEmbedder
from .adapters.file_receipts import FileReceipts
from .adapters.litellm_environment import prepare_environment
from .adapters.memory_ledger import MemoryLedger
from .adapters.memory_subagents import MemorySubagents
from .adapters.minilm import MiniLmEmbedder
from .adapters.ollama import find_chat_model
from .adapters.redis_ledger import RedisLedger
from .adapters.redis_receipts import RedisReceipts
from .adapters.redis_subagents import RedisSubagents
from .errors import EmbedderError, SettingsError
from .hosts.subagents import PendingSubagents
from .protocols import ChatModel, Embedder, Ledger, ReceiptStore
from .service_settings import ServiceSettings
from .shelf import Shelf

if TYPE_CHECKING:
    from .api.server import HttpServer

log = structlog.get_logger()

PROBE_TIMEOUT = 0.5


def make_shelf(service: ServiceSettings) -> Shelf:
    """Where the generations of the configured store are; nothing is opened yet."""
    if service.qdrant_url:
        return server_shelf(service, service.qdrant_url)
    return EdgeShelf(service.home)


def server_shelf(service: ServiceSettings, url: str) -> Shelf:
    adapter = _slow_adapter("server_shelf")
    shelf: Shelf = adapter.ServerShelf(url, api_key=service.qdrant_api_key, name=service.collection)
    return shelf


def store_path(service: ServiceSettings) -> Path:
    """The folder of the embedded store's live generation."""
    return live_folder(service.home)


def embedded_redis_url(service: ServiceSettings) -> str:
    """Where the Valkey that `meeseeks up` starts listens."""
    return unix_url(socket_path(str(service.home.absolute())))


def embedded_is_up(service: ServiceSettings) -> bool:
    """Whether something listens where the Valkey of `meeseeks up` would."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_TIMEOUT)
        return probe.connect_ex(socket_path(str(service.home.absolute()))) == 0


def http_server(service: ServiceSettings) -> "HttpServer":
    """HTTP as the settings say, not served yet. Raises `SettingsError` for what is wrong with them."""
    server: HttpServer = import_module("worker.api.server").HttpServer(service)
    return server


def open_ledger(service: ServiceSettings, redis: "Redis | None") -> Ledger:
    return RedisLedger(redis, service.ledger_ttl_s) if redis is not None else MemoryLedger()


def open_receipts(service: ServiceSettings, redis: "Redis | None") -> ReceiptStore:
    return RedisReceipts(redis, service.receipt_ttl_s) if redis is not None else FileReceipts(service.home / "receipts")


def open_subagents(redis: "Redis | None") -> PendingSubagents:
    return RedisSubagents(redis) if redis is not None else MemorySubagents()


async def open_embedder(service: ServiceSettings, stack: AsyncExitStack) -> Embedder | None:
    """The embedder, warmed up. While it does not work, queries go on by keywords; it is tried again with each."""
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
    """The embedder that the settings name. Raises `SettingsError` for a name that means nothing."""
    kind, _, name = service.embedder.partition(":")
    if kind == "none":
        return None
    if kind == "minilm":
        return MiniLmEmbedder()
    if kind == "fastembed" and name:
        return FastEmbedEmbedder(name)
    if kind == "litellm" and name:
        adapter = _slow_adapter("litellm_embedder")
        base, dimension = service.embedder_api_base, service.embedder_dimension
        embedder: Embedder = adapter.LiteLLMEmbedder(name, api_base=base, dimension=dimension)
        return embedder
    raise SettingsError(
        f"service.embedder: {service.embedder!r}; use minilm, fastembed:<model>, litellm:<model> or none"
    )


async def choose_model(service: ServiceSettings) -> str | None:
    """The configured model, else one of a local Ollama; `none` means that no model is wanted."""
    if service.model == "none":
        return None
    return service.model or await find_chat_model(service.ollama_url)


async def open_model(service: ServiceSettings, stack: AsyncExitStack) -> ChatModel | None:
    """The model, still warming up: until it has, requests in a hurry get the deterministic answer."""
    name = await choose_model(service)
    if name is None:
        return None
    model = await asyncio.to_thread(_load_model, service, name)
    stack.push_async_callback(model.aclose)
    warming = asyncio.create_task(model.warm(), name="warm-model")
    stack.callback(warming.cancel)
    return model


def _load_model(service: ServiceSettings, name: str) -> ChatModel:
    base = service.model_api_base or (service.ollama_url if name.startswith("ollama") else None)
    model: ChatModel = _slow_adapter("litellm_model").LiteLLMModel(
        name, api_base=base, api_key=service.model_api_key, num_ctx=service.model_context
    )
    return model


def _slow_adapter(name: str) -> Any:
    """An adapter whose SDK takes a second or more to import."""
    prepare_environment(os.environ)
    return import_module(f"worker.adapters.{name}")
