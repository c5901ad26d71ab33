"""The server store: network faults, server errors and collections created by others."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.ports import free_port
from tests.support.qdrant_double import QdrantDouble, qdrant_double
from tests.support.real_servers import SLOW_READ_S
from tests.support.store import ENCODER, direction, memory, near, profile, query, stored
from worker.adapters.qdrant.payload import FRACTION_KEYS, KEYWORD_KEYS, NUMBER_KEYS
from worker.adapters.qdrant.server.store import ServerStore
from worker.domain.errors import StoreError
from worker.domain.kinds import SortKey
from worker.domain.memory import MemoryFilter

QUESTION = direction("question")

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")


@pytest.fixture
async def double() -> AsyncIterator[QdrantDouble]:
    async with qdrant_double() as running:
        yield running


def connect(url: str, **options: Any) -> ServerStore:
    given = {"collection": "memories", "profile": profile(), "bm25_hash": ENCODER.config_hash}
    return ServerStore.connect(url, **given | {"read_timeout": SLOW_READ_S} | options)


@pytest.fixture
async def store(double: QdrantDouble) -> AsyncIterator[ServerStore]:
    opened = connect(double.url)
    await opened.tenant("north").put([stored(memory("m1"), near(QUESTION, 0.8))])
    double.seen.clear()
    double.bodies.clear()
    yield opened
    await opened.aclose()


async def test_a_search_is_one_request_filtered_by_tenant(double: QdrantDouble, store: ServerStore) -> None:
    hits = await store.tenant("north").search(query("bell", QUESTION))
    assert [hit.memory.id for hit in hits] == ["m1"]
    assert double.seen == ["POST /collections/memories/points/query/batch"]
    searches = double.bodies[0]["searches"]
    assert [search["using"] for search in searches] == ["dense", "bm25"]
    for search in searches:
        assert search["filter"]["must"][0] == {"key": "tenant", "match": {"value": "north"}}
    assert searches[1]["params"]["idf"]["corpus"]["must"][0]["match"] == {"value": "north"}


async def test_the_collection_is_made_for_many_tenants_before_anything_is_put(double: QdrantDouble) -> None:
    opened = connect(double.url)
    await opened.tenant("north").put([stored(memory("m1"))])
    made = double.bodies[double.seen.index("PUT /collections/memories")]
    assert made["hnsw_config"] == {"m": 0, "payload_m": 16}
    assert made["sparse_vectors"] == {"bm25": {"modifier": "idf"}}
    assert made["vectors"]["dense"] == {"size": 16, "distance": "Cosine"}
    assert made["metadata"]["embedder"]["fingerprint"] == profile().fingerprint
    indexes = {body["field_name"]: body["field_schema"] for body in double.bodies if "field_name" in body}
    assert indexes["tenant"] == {"type": "keyword", "is_tenant": True}
    assert set(indexes) >= {
        "user",
        "agent",
        "project",
        "type",
        "entities",
        "created_ts",
        "superseded_ts",
        "valid_until_ts",
    }
    first_put = double.seen.index("PUT /collections/memories/points")
    assert all(place < first_put for place, line in enumerate(double.seen) if line.endswith("/index"))
    await opened.aclose()


async def test_a_new_store_answers_while_its_indexes_are_built(double: QdrantDouble) -> None:
    """A server takes a third of a second for each."""
    double.index_s = 0.1
    opened = connect(double.url, read_timeout=0.8)
    tenant = opened.tenant("north")
    assert await tenant.ordered(MemoryFilter(), SortKey.RECENT, limit=1) == []
    assert await tenant.search(query("bell", QUESTION)) == []
    await tenant.put([stored(memory("m1"))])
    assert double.built_at <= time.monotonic()
    await opened.aclose()


async def test_the_first_read_may_take_as_long_as_making_the_collection(double: QdrantDouble) -> None:
    double.faults.extend([0.0, 0.6])
    opened = connect(double.url, read_timeout=0.4)
    assert (await opened.health()).points == 0
    assert double.seen[1] == "PUT /collections/memories"
    await opened.aclose()


async def test_an_index_that_a_collection_has_is_not_made_again(double: QdrantDouble, store: ServerStore) -> None:
    del double.indexes["memories"]["entities"]
    second = connect(double.url)
    assert await second.tenant("north").count() == 1
    assert double.seen.count("PUT /collections/memories/index") == 1
    await second.aclose()


async def test_an_older_server_is_not_asked_for_term_weights_by_tenant(double: QdrantDouble) -> None:
    double.version = "1.18.3"
    opened = connect(double.url)
    await opened.tenant("north").put([stored(memory("m1"))])
    assert len(await opened.tenant("north").search(query("bell"))) == 1
    assert "params" not in double.bodies[-1]["searches"][0]
    await opened.aclose()


@pytest.mark.parametrize("fault", [500, 502, 503, 429, "drop"])
async def test_one_failure_of_a_read_is_made_good_by_one_retry(
    double: QdrantDouble, store: ServerStore, fault: int | str
) -> None:
    double.faults.append(fault)
    assert len(await store.tenant("north").search(query("bell", QUESTION))) == 1
    assert len(double.seen) == 2


async def test_a_second_failure_of_a_read_is_a_store_error(double: QdrantDouble, store: ServerStore) -> None:
    double.faults.extend([500, 503, 503])
    with pytest.raises(StoreError, match="503"):
        await store.tenant("north").search(query("bell", QUESTION))
    assert len(double.seen) == 2


async def test_a_write_outlasts_four_failures(double: QdrantDouble, store: ServerStore) -> None:
    double.faults.extend([500, "drop", 503, 429])
    await store.tenant("north").put([stored(memory("m2"))])
    assert len(double.seen) == 5
    double.faults.extend([500] * 5)
    with pytest.raises(StoreError, match="500"):
        await store.tenant("north").put([stored(memory("m3"))])
    assert await store.tenant("north").count() == 2


@pytest.mark.parametrize("fault", [400, 403, 404])
async def test_a_refusal_is_not_repeated(double: QdrantDouble, store: ServerStore, fault: int) -> None:
    double.faults.append(fault)
    with pytest.raises(StoreError, match=str(fault)):
        await store.tenant("north").count()
    assert len(double.seen) == 1


async def test_an_answer_that_is_not_qdrants_is_a_store_error(double: QdrantDouble, store: ServerStore) -> None:
    double.faults.extend(["garbage", "garbage"])
    with pytest.raises(StoreError):
        await store.tenant("north").search(query("bell", QUESTION))


async def test_a_hanging_server_is_given_up_in_time(double: QdrantDouble) -> None:
    opened = connect(double.url, read_timeout=0.3, write_timeout=0.5)
    await opened.health()
    for call, limit in (
        (opened.tenant("north").search(query("bell", QUESTION)), 0.3),
        (opened.tenant("north").put([stored(memory("m1"))]), 0.5),
    ):
        double.faults.append("hang")
        start = time.monotonic()
        with pytest.raises(StoreError, match="did not answer within"):
            await call
        assert limit - 0.05 <= time.monotonic() - start < limit + 1.0
    assert await opened.tenant("north").count() == 0
    await opened.aclose()


async def test_a_callers_own_deadline_is_kept(double: QdrantDouble, store: ServerStore) -> None:
    double.faults.append("hang")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await store.tenant("north").search(query("bell", QUESTION))
    assert len(await store.tenant("north").search(query("bell", QUESTION))) == 1


async def test_an_unreachable_server_is_a_store_error_and_used_once_up(double: QdrantDouble) -> None:
    away = connect(f"http://127.0.0.1:{free_port()}")
    for call in (away.health(), away.tenant("north").search(query("bell")), away.tenant("north").get(["m1"])):
        with pytest.raises(StoreError, match="server failed"):
            await call
    await away.aclose()

    late = connect(double.url)
    double.faults.extend([503] * 2)
    with pytest.raises(StoreError):
        await late.health()
    assert (await late.health()).points == 0
    await late.aclose()


async def test_errors_never_contain_the_response_body(double: QdrantDouble, store: ServerStore) -> None:
    double.faults.append(400)
    with pytest.raises(StoreError) as caught:
        await store.tenant("north").put([stored(memory("m2", "the secret content"))])
    assert "secret" not in str(caught.value)
    assert "injected" not in str(caught.value)


async def test_callers_at_the_start_share_one_preparation(double: QdrantDouble) -> None:
    opened = connect(double.url)
    await asyncio.gather(*(opened.tenant(f"t{index}").count() for index in range(10)))
    assert double.seen.count("PUT /collections/memories") == 1
    keys = (*KEYWORD_KEYS, *NUMBER_KEYS, *FRACTION_KEYS)
    assert double.seen.count("PUT /collections/memories/index") == len(keys)
    await opened.aclose()


async def test_a_collection_created_by_another_process_is_used(double: QdrantDouble, store: ServerStore) -> None:
    double.faults.append("absent")
    second = connect(double.url)
    assert await second.tenant("north").count() == 1
    assert double.seen[:2] == ["GET /collections/memories/exists", "PUT /collections/memories"]
    await second.aclose()


@pytest.mark.parametrize("other", [profile("big", 32), profile("other", 16)])
async def test_another_embedder_turns_dense_search_off(double: QdrantDouble, store: ServerStore, other: Any) -> None:
    changed = connect(double.url, profile=other)
    health = await changed.health()
    assert not health.dense_usable
    assert health.fault is not None
    assert all(word in health.fault for word in ("tiny (16", other.name, "meeseeks store reindex"))
    tenant = changed.tenant("north")
    await tenant.put([stored(memory("new", "lantern"), direction("x", other.dimension))])
    hits = await tenant.search(query("bell lantern", direction("q", other.dimension)))
    assert {hit.memory.id for hit in hits} == {"m1", "new"}
    assert all(hit.cosine is None and hit.vector is None for hit in hits)
    await changed.aclose()
    assert [hit.memory.id for hit in await store.tenant("north").search(query(dense=QUESTION))] == ["m1"]


async def test_a_collection_made_by_somebody_else_is_not_searched_by_vectors(double: QdrantDouble) -> None:
    first = connect(double.url, profile=profile())
    await first.health()
    collection = await double.engine.get_collection("memories")
    await double.engine.update_collection("memories", metadata={"embedder": "?", "bm25": 1})
    assert collection.config.metadata is not None
    second = connect(double.url)
    health = await second.health()
    assert not health.dense_usable
    assert health.fault is not None
    await first.aclose()
    await second.aclose()


async def test_without_an_embedder_the_collection_serves_words(double: QdrantDouble) -> None:
    opened = connect(double.url, profile=None)
    await opened.tenant("north").put([stored(memory("m1"))])
    (hit,) = await opened.tenant("north").search(query("bell", QUESTION))
    assert (hit.cosine, hit.vector) == (None, None)
    health = await opened.health()
    assert (health.engine, health.points, health.dense_usable, health.fault) == ("server", 1, False, None)
    await opened.aclose()


async def test_a_long_import_goes_in_batches(double: QdrantDouble, store: ServerStore) -> None:
    await store.tenant("north").put([stored(memory(f"x{index}")) for index in range(300)])
    assert double.seen == ["PUT /collections/memories/points"] * 3
    assert max(len(body["points"]) for body in double.bodies) <= 128
    assert await store.tenant("north").count() == 301
    page = await store.tenant("north").scroll(MemoryFilter(), limit=1000)
    assert len(page.memories) == 301
    assert json.loads(page.memories[0].model_dump_json())["id"]
