"""Receipts in a real Valkey."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hooks.contract import Reason
from hooks.queue import connect
from tests.support.real_servers import REDIS_KINDS, redis_of
from tests.support.receipts import showing
from tests.support.valkey import forget, sync_redis
from worker.adapters.redis.erasing import RedisErasures
from worker.adapters.redis.receipts import (
    BY_TIME_PREFIX,
    ERASED_TOGETHER,
    FORMER_PREFIX,
    LINE_PREFIX,
    RECEIPT_PREFIX,
    RedisReceipts,
)
from worker.domain.errors import BadCursor, NotFound, QueueError
from worker.domain.receipt import Receipt, turn_of


@pytest.fixture(scope="module", params=REDIS_KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with redis_of(request.param) as url:
        yield url


@pytest.fixture
async def redis(url: str) -> AsyncIterator[Any]:
    client = connect(url)
    yield client
    await client.aclose()
    forget(url)


@pytest.fixture
def receipts(redis: Any) -> RedisReceipts:
    return RedisReceipts(redis, ttl_s=60)


def receipt(number: int, tenant: str = "default") -> Receipt:
    return showing(number, tenant=tenant)


async def test_a_receipt_is_read_as_it_was_written(receipts: RedisReceipts) -> None:
    await receipts.write(receipt(1))
    assert (await receipts.read("default", "r1")).request.message == "caf\u00e9 \U0001f600"
    assert (await receipts.read("default", "r1")).at == datetime(2026, 1, 1, tzinfo=UTC)


async def test_the_newest_come_first_and_each_once(receipts: RedisReceipts) -> None:
    for number in (1, 2, 3, 1):
        await receipts.write(receipt(number))
    assert [found.id for found in (await receipts.recent("default", 2)).receipts] == ["r1", "r3"]
    assert [found.id for found in (await receipts.recent("default", 10)).receipts] == ["r1", "r3", "r2"]
    assert (await receipts.recent("default", 0)).receipts == ()
    page = await receipts.recent("default", 2, offset=1)
    assert ([found.id for found in page.receipts], page.end) == (["r3", "r2"], False)
    assert (await receipts.recent("default", 2, offset=2)).end


async def test_a_tenant_sees_its_own_only(receipts: RedisReceipts) -> None:
    await receipts.write(receipt(1, "a:b"))
    assert (await receipts.recent("a", 10)).receipts == ()
    with pytest.raises(NotFound):
        await receipts.read("a", "b:r1")
    assert (await receipts.read("a:b", "r1")).id == "r1"


async def test_a_turn_is_found_by_all_parts_of_its_identity(receipts: RedisReceipts) -> None:
    first, second = receipt(1), receipt(2)
    await receipts.write(first)
    await receipts.write(second.model_copy(update={"request": first.request}))
    turn = turn_of(first.request)
    assert [found.id for found in await receipts.of_turn(turn)] == ["r2", "r1"]
    for other in ({"tenant": "x"}, {"session_id": "x"}, {"agent_id": "x"}, {"turn_id": "x"}):
        assert await receipts.of_turn(turn.model_copy(update=other)) == []


async def test_the_list_goes_on_where_a_page_ended_whatever_comes_meanwhile(receipts: RedisReceipts) -> None:
    for number in range(5):
        await receipts.write(receipt(number))
    first = await receipts.summaries("default", 2)
    assert [one.id for one in first.summaries] == ["r4", "r3"]
    assert first.summaries[0].message == "caf\u00e9 \U0001f600"
    await receipts.write(receipt(5))
    second = await receipts.summaries("default", 2, after=first.cursor)
    assert [one.id for one in second.summaries] == ["r2", "r1"]
    last = await receipts.summaries("default", 2, after=second.cursor)
    assert ([one.id for one in last.summaries], last.cursor) == (["r0"], None)
    assert (await receipts.summaries("other", 2)).summaries == ()


async def test_a_page_follows_a_receipt_that_has_expired(receipts: RedisReceipts, redis: Any) -> None:
    for number in range(4):
        await receipts.write(receipt(number))
    first = await receipts.summaries("default", 2)
    await redis.zrem(f"{BY_TIME_PREFIX}default", "r2")
    assert [one.id for one in (await receipts.summaries("default", 2, after=first.cursor)).summaries] == ["r1", "r0"]


@pytest.mark.parametrize("cursor", ["", "x", "1", "1.2", "1.2.", "-1.5.r1", "9" * 30 + ".1.r1"])
async def test_a_made_up_cursor_is_refused(receipts: RedisReceipts, cursor: str) -> None:
    with pytest.raises(BadCursor):
        await receipts.summaries("default", 2, after=cursor)


async def test_what_a_former_version_listed_is_taken_over(receipts: RedisReceipts, redis: Any) -> None:
    for number in (1, 2):
        await receipts.write(receipt(number))
    await redis.delete(f"{BY_TIME_PREFIX}default", f"{LINE_PREFIX}default:r1", f"{LINE_PREFIX}default:r2")
    await redis.lpush(f"{FORMER_PREFIX}default", "gone", "r1", "r2")
    await receipts.write(receipt(3))
    assert [one.id for one in (await receipts.summaries("default", 9)).summaries] == ["r3", "r2", "r1"]
    assert not await redis.exists(f"{FORMER_PREFIX}default")


async def test_what_is_taken_over_is_kept_no_longer_and_looked_for_once(receipts: RedisReceipts, redis: Any) -> None:
    await receipts.write(receipt(1).model_copy(update={"at": datetime.now(UTC) - timedelta(seconds=40)}))
    await redis.delete(f"{BY_TIME_PREFIX}default", f"{LINE_PREFIX}default:r1")
    await redis.expire(f"{RECEIPT_PREFIX}default:r1", 20)
    await redis.lpush(f"{FORMER_PREFIX}default", "r1")
    assert [one.id for one in (await receipts.summaries("default", 9)).summaries] == ["r1"]
    assert await redis.ttl(f"{RECEIPT_PREFIX}default:r1") <= 20
    assert 0 < await redis.ttl(f"{LINE_PREFIX}default:r1") <= 20
    before = (await redis.info("commandstats"))["cmdstat_lrange"]["calls"]
    for _ in range(3):
        await receipts.summaries("default", 9)
    assert (await redis.info("commandstats"))["cmdstat_lrange"]["calls"] == before + 1, "the last look found nothing"


async def test_lines_end_with_their_receipts(redis: Any, url: str) -> None:
    receipts = RedisReceipts(redis, ttl_s=60)
    await receipts.write(receipt(1))
    await redis.zadd(f"{BY_TIME_PREFIX}default", {"old": 5.0})
    await receipts.write(receipt(2))
    assert await redis.zcard(f"{BY_TIME_PREFIX}default") == 2
    assert 0 < await redis.ttl(f"{LINE_PREFIX}default:r1") <= 60


async def test_ids_are_found_by_their_beginning(receipts: RedisReceipts) -> None:
    for number in range(12):
        await receipts.write(receipt(number))
    assert sorted(await receipts.beginning("default", "r1")) == ["r1", "r10", "r11"]
    assert await receipts.beginning("default", "*") == []
    assert await receipts.beginning("other", "r") == []
    assert [one.id for one in await receipts.several("default", ["r3", "none", "r1"])] == ["r3", "r1"]


async def test_expired_or_unreadable_receipts_are_left_out(receipts: RedisReceipts, url: str) -> None:
    for number in (1, 2, 3):
        await receipts.write(receipt(number))
    with sync_redis(url) as client:
        client.delete(RECEIPT_PREFIX + "default:r1")
        client.set(RECEIPT_PREFIX + "default:r2", "{}", ex=60)
    assert [found.id for found in (await receipts.recent("default", 10)).receipts] == ["r3"]
    for missing in ("r1", "r2", "never"):
        with pytest.raises(NotFound, match=missing):
            await receipts.read("default", missing)


async def test_unreachable_receipts_are_an_error_with_a_reason() -> None:
    client = connect("unix:///no/such/socket")
    for call in (RedisReceipts(client, 60).write(receipt(1)), RedisReceipts(client, 60).recent("default", 1)):
        with pytest.raises(QueueError) as caught:
            await call
        assert caught.value.reason is Reason.QUEUE_UNAVAILABLE
    await client.aclose()


async def test_texts_of_deleted_memories_are_erased_from_what_was_written_before(
    receipts: RedisReceipts, redis: Any
) -> None:
    for number in range(ERASED_TOGETHER + 1):
        await receipts.write(showing(number, "m1", "m2"))
    await receipts.write(showing(1, "m1", tenant="other"))
    before = datetime.now(UTC)
    assert await receipts.erase("default", {"m1": before, "unknown": before}) == ERASED_TOGETHER + 1
    left = await receipts.read("default", "r0")
    assert [(one.id, one.text, one.cue, one.deleted) for one in left.considered] == [
        ("m1", "", None, True),
        ("m2", "text of m2", "cue of m2", False),
    ]
    assert left.block is None
    assert b"of m1" not in await redis.get(f"{RECEIPT_PREFIX}default:r{ERASED_TOGETHER}")
    assert 0 < await redis.ttl(f"{RECEIPT_PREFIX}default:r0") <= 60
    assert (await receipts.read("other", "r1")).block == "text of m1"
    assert await receipts.erase("default", {"m1": before}) == 0, "nothing is left to erase"
    assert await receipts.erase("default", {"m2": before - timedelta(minutes=1)}) == 0, "written later, of another text"


async def test_erasures_are_claimed_once_when_they_are_due(redis: Any) -> None:
    queue, minute, lease = RedisErasures(redis, 60), timedelta(minutes=1), timedelta(minutes=5)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    await queue.put("t:1", ["m1", "m\u00e9", "m3"], now + minute)
    await queue.put("t:1", ["later"], now + 9 * minute)
    await queue.cancel("t:1", ["m3"])
    assert await queue.claim(now, lease, most=9) == []
    found = await queue.claim(now + minute, lease, most=9)
    assert sorted((one.tenant, one.id, one.due) for one in found) == [
        ("t:1", "m1", now + minute),
        ("t:1", "m\u00e9", now + minute),
    ]
    assert await queue.claim(now + minute, lease, most=9) == []
    await queue.put("t:1", ["m1"], now + 2 * minute)
    await queue.done(found, now + minute + lease)
    assert [one.id for one in await queue.claim(now + 8 * minute, lease, most=9)] == ["m1"], "deleted again meanwhile"
