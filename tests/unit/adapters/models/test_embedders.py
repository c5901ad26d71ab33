import pytest

from tests.support.embedders import HashingEmbedder, hashed_vector
from worker.adapters.models.caching_embedder import CachingEmbedder
from worker.domain.errors import EmbedderError


def cosine(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


async def test_a_repeated_query_is_embedded_once() -> None:
    inner = HashingEmbedder()
    cached = CachingEmbedder(inner)
    first = await cached.embed_query("where do we deploy")
    assert await cached.embed_query("where do we deploy") == first
    assert inner.queries == ["where do we deploy"]


async def test_the_least_recently_used_query_is_forgotten() -> None:
    inner = HashingEmbedder()
    cached = CachingEmbedder(inner, capacity=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await cached.embed_query(text)
    assert inner.queries == ["a", "b", "c", "b"]


async def test_failures_are_not_cached() -> None:
    inner = HashingEmbedder(fault=EmbedderError("down"))
    cached = CachingEmbedder(inner)
    with pytest.raises(EmbedderError):
        await cached.embed_query("a")
    inner.fault = None
    assert await cached.embed_query("a") == hashed_vector("a")


async def test_other_calls_are_passed_to_the_inner_embedder() -> None:
    inner = HashingEmbedder()
    cached = CachingEmbedder(inner)
    assert cached.profile == inner.profile
    assert await cached.embed_passages(["a", "b"]) == [hashed_vector("a"), hashed_vector("b")]
    await cached.aclose()
    assert inner.closed


def test_the_hashing_embedder_orders_by_shared_words() -> None:
    query = hashed_vector("deploy the billing service")
    near = cosine(query, hashed_vector("the billing service deploys on Tuesday: deploy by hand"))
    far = cosine(query, hashed_vector("Anna prefers tea"))
    assert near > 0.4
    assert abs(far) < 0.25
    assert cosine(query, query) == pytest.approx(1.0)


def test_hashed_vectors_are_the_same_in_every_process() -> None:
    marked = {place: round(value, 4) for place, value in enumerate(hashed_vector("stable")) if value}
    assert marked == {1: -0.4851, 4: -0.4851, 22: -0.4851, 52: 0.2425, 56: -0.4851}
