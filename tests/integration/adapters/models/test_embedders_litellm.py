"""Embedders through the real LiteLLM against a local server."""

import asyncio
import logging
import math
import os
import time
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import pytest

from tests.support.embedders import DIMENSION, SECRET_BODY, EmbeddingServer, Fault, hashed_vector
from worker.adapters.models.litellm_process import prepare_environment
from worker.domain.errors import EmbedderError

MODELS = ["ollama/some-model", "openai/some-model"]


@pytest.fixture(scope="module")
def adapter() -> Any:
    prepare_environment(os.environ)
    return import_module("worker.adapters.models.litellm_embedder")


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    async with EmbeddingServer() as running:
        yield running


def embedder_for(adapter: Any, server: EmbeddingServer, model: str, **options: Any) -> Any:
    base = server.url + ("/v1" if model.startswith("openai/") else "")
    return adapter.LiteLLMEmbedder(model, api_base=base, **{"query_timeout": 5.0, **options})


@pytest.mark.parametrize("model", MODELS)
async def test_vectors_come_back_at_unit_length_and_in_order(adapter: Any, server: EmbeddingServer, model: str) -> None:
    embedder = embedder_for(adapter, server, model)
    texts = [f"text number {number}" for number in range(40)]
    vectors = await embedder.embed_passages(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert vector == pytest.approx(hashed_vector(text), abs=1e-6)
    assert len(server.requests) == 2
    assert await embedder.embed_query("text number 3") == pytest.approx(vectors[3], abs=1e-6)


@pytest.mark.parametrize("model", MODELS)
async def test_the_dimension_is_learnt_from_the_first_answer(adapter: Any, server: EmbeddingServer, model: str) -> None:
    embedder = embedder_for(adapter, server, model)
    with pytest.raises(EmbedderError, match="length of its vectors"):
        _ = embedder.profile
    await embedder.warm()
    assert embedder.profile.dimension == DIMENSION
    server.dimension = 32
    with pytest.raises(EmbedderError, match="length 32 instead of 64"):
        await embedder.embed_query("a")


def test_a_configured_dimension_is_part_of_the_fingerprint(adapter: Any) -> None:
    small = adapter.LiteLLMEmbedder("ollama/m", dimension=32).profile
    large = adapter.LiteLLMEmbedder("ollama/m", dimension=64).profile
    assert (small.dimension, large.dimension) == (32, 64)
    assert small.fingerprint != large.fingerprint


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("ollama/nomic-embed-text", "search_query: q", "search_document: p"),
        ("ollama/jeffh/intfloat-multilingual-e5-small", "query: q", "passage: p"),
        ("ollama/some-model", "q", "p"),
    ],
)
async def test_prefixes_by_family(adapter: Any, server: EmbeddingServer, model: str, query: str, passage: str) -> None:
    embedder = embedder_for(adapter, server, model)
    server.dimension = embedder.profile.dimension if model != "ollama/some-model" else DIMENSION
    await embedder.embed_query("q")
    await embedder.embed_passages(["p"])
    assert server.texts == [query, passage]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault not in (Fault.NONE, Fault.HANG)])
async def test_every_fault_is_one_request_and_one_error(
    adapter: Any, server: EmbeddingServer, model: str, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.fault = fault
    embedder = embedder_for(adapter, server, model, dimension=DIMENSION)
    with pytest.raises(EmbedderError) as caught:
        await embedder.embed_query("the text of a query")
    assert len(server.requests) == 1
    assert SECRET_BODY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "the text of a query" not in caplog.text
    server.fault = Fault.NONE
    assert await embedder.embed_query("a") == pytest.approx(hashed_vector("a"), abs=1e-6)


async def test_too_many_requests_are_named(adapter: Any, server: EmbeddingServer) -> None:
    server.fault = Fault.RATE_LIMIT
    with pytest.raises(EmbedderError, match="rate limited"):
        await embedder_for(adapter, server, "ollama/some-model").embed_query("a")


@pytest.mark.parametrize("model", MODELS)
async def test_a_hung_server_costs_the_timeout_and_no_more(adapter: Any, server: EmbeddingServer, model: str) -> None:
    await embedder_for(adapter, server, model).warm()
    server.requests.clear()
    server.fault = Fault.HANG
    embedder = embedder_for(adapter, server, model, query_timeout=0.4)
    started = time.monotonic()
    with pytest.raises(EmbedderError, match="no answer within"):
        await embedder.embed_query("a")
    assert time.monotonic() - started < 0.4 + 0.3
    assert len(server.requests) == 1


async def test_nobody_listening(adapter: Any) -> None:
    embedder = adapter.LiteLLMEmbedder("ollama/some-model", api_base="http://127.0.0.1:9", query_timeout=5.0)
    with pytest.raises(EmbedderError, match="the call failed"):
        await embedder.embed_query("a")


async def test_the_caller_can_cancel(adapter: Any, server: EmbeddingServer) -> None:
    server.fault = Fault.HANG
    embedder = embedder_for(adapter, server, "ollama/some-model")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await embedder.embed_query("a")


async def test_odd_texts_reach_the_server_as_valid_json(adapter: Any, server: EmbeddingServer) -> None:
    embedder = embedder_for(adapter, server, "ollama/some-model")
    vectors = await embedder.embed_passages(["", "\ud800 broken", "👍", "数据库", "x" * 100_000])
    assert all(math.isclose(sum(value * value for value in vector), 1.0, abs_tol=1e-6) for vector in vectors)
    assert len(server.texts[-1]) == 8_192
    assert "\ufffd broken" in server.texts or "? broken" in server.texts
