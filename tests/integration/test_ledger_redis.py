"""Ledgers in a real Valkey."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from hooks.contract import Reason
from hooks.queue import connect
from tests.support.valkey import forget, running_valkey, sync_redis
from worker.adapters import redis_ledger
from worker.adapters.redis_ledger import KEPT_TURNS, RedisLedger, ledger_key
from worker.errors import QueueError
from worker.models import LedgerEntry, LedgerKey

KEY = LedgerKey("tenant", "session", "agent")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_valkey() as server:
        yield server.url


@pytest.fixture
async def redis(url: str) -> AsyncIterator[Any]:
    client = connect(url)
    yield client
    await client.aclose()
    forget(url)


@pytest.fixture
def ledger(redis: Any) -> RedisLedger:
    return RedisLedger(redis, ttl_s=60)


def entry(turn: int, version: int = 1) -> LedgerEntry:
    return LedgerEntry(version=version, turn=turn, block_id=f"block-{turn}")


async def test_turns_are_numbered_and_a_repeated_one_keeps_its_number(ledger: RedisLedger) -> None:
    views = [await ledger.view(KEY, turn_id) for turn_id in ("a", "b", "a", "c")]
    assert [view.turn for view in views] == [1, 2, 1, 3]
    assert views[0].shown == {}
    assert all(view.replay is None for view in views)


async def test_what_is_offered_counts_once_it_is_committed(ledger: RedisLedger) -> None:
    await ledger.view(KEY, "a")
    await ledger.offer(KEY, "a", '{"answer":1}', {"m1": entry(1), "\u00fc:2": entry(1, version=7)})
    before = await ledger.view(KEY, "b")
    assert await ledger.commit(KEY, "a")
    assert await ledger.commit(KEY, "a")
    after = await ledger.view(KEY, "b")
    assert before.shown == {}
    assert after.shown == {"m1": entry(1), "\u00fc:2": entry(1, version=7)}


async def test_an_answered_turn_is_replayed_and_its_first_answer_stands(ledger: RedisLedger) -> None:
    await ledger.view(KEY, "a")
    await ledger.offer(KEY, "a", "first \u20ac", {"m1": entry(1)})
    await ledger.offer(KEY, "a", "second", {"m2": entry(1)})
    assert (await ledger.view(KEY, "a")).replay == "first \u20ac"
    assert await ledger.commit(KEY, "a")
    assert set((await ledger.view(KEY, "b")).shown) == {"m1"}


async def test_only_what_was_offered_can_be_committed(ledger: RedisLedger) -> None:
    assert not await ledger.commit(KEY, "never seen")
    await ledger.view(KEY, "seen")
    assert not await ledger.commit(KEY, "seen")
    await ledger.offer(KEY, "seen", "nothing to show", {})
    assert await ledger.commit(KEY, "seen")


async def test_a_turn_may_be_offered_without_having_been_viewed(ledger: RedisLedger) -> None:
    await ledger.offer(KEY, "a", "answer", {"m1": entry(1)})
    assert await ledger.commit(KEY, "a")
    assert (await ledger.view(KEY, "b")).turn == 2


async def test_a_memory_shown_again_is_counted_from_its_last_turn(ledger: RedisLedger) -> None:
    for turn, turn_id in enumerate(("a", "b"), 1):
        await ledger.view(KEY, turn_id)
        await ledger.offer(KEY, turn_id, "answer", {"m1": entry(turn, version=turn)})
        await ledger.commit(KEY, turn_id)
    assert (await ledger.view(KEY, "c")).shown == {"m1": entry(2, version=2)}


async def test_sessions_agents_and_tenants_do_not_see_each_other(ledger: RedisLedger) -> None:
    await ledger.offer(KEY, "a", "answer", {"m1": entry(1)})
    await ledger.commit(KEY, "a")
    for other in (LedgerKey("other", "session", "agent"), LedgerKey("tenant", "session", "other")):
        assert (await ledger.view(other, "a")).shown == {}


def test_no_two_ledgers_share_a_key() -> None:
    keys = [
        LedgerKey("a:b", "c", "d"),
        LedgerKey("a", "b:c", "d"),
        LedgerKey("a", "b", "c:d"),
        LedgerKey("a%3Ab", "c", "d"),
        LedgerKey("\u00e9" * 512, "s", "a"),
        LedgerKey("\u00e9" * 511, "s", "a"),
    ]
    names = {ledger_key(key) for key in keys}
    assert len(names) == len(keys)
    assert all(len(name) <= 250 and name.isascii() for name in names)


async def test_parallel_turns_lose_nothing(ledger: RedisLedger) -> None:
    async def one(number: int) -> int:
        turn_id = f"turn-{number}"
        view = await ledger.view(KEY, turn_id)
        await ledger.offer(KEY, turn_id, "answer", {f"m{number}": entry(view.turn)})
        assert await ledger.commit(KEY, turn_id)
        return view.turn

    turns = await asyncio.gather(*(one(number) for number in range(12)))
    assert sorted(turns) == list(range(1, 13))
    assert set((await ledger.view(KEY, "last")).shown) == {f"m{number}" for number in range(12)}


async def test_old_turns_are_forgotten_and_what_they_showed_is_not(ledger: RedisLedger, url: str) -> None:
    for number in range(KEPT_TURNS + 20):
        turn_id = f"turn-{number}"
        view = await ledger.view(KEY, turn_id)
        await ledger.offer(KEY, turn_id, "answer", {f"m{number}": entry(view.turn)})
        await ledger.commit(KEY, turn_id)
    with sync_redis(url) as client:
        fields = client.hkeys(ledger_key(KEY))
    for family in (b"t:", b"r:", b"i:"):
        assert sum(field.startswith(family) for field in fields) == KEPT_TURNS
    assert len((await ledger.view(KEY, "turn-51")).shown) == KEPT_TURNS + 20
    assert not await ledger.commit(KEY, "turn-3")


async def test_what_was_shown_long_ago_is_swept_when_there_is_much_of_it(
    ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_ledger, "SHOWN_BEFORE_SWEEP", 4)
    monkeypatch.setattr(redis_ledger, "SHOWN_TURNS", 3)
    for number in range(1, 9):
        await ledger.view(KEY, str(number))
        await ledger.offer(KEY, str(number), "answer", {f"m{number}": entry(number)})
        await ledger.commit(KEY, str(number))
    assert set((await ledger.view(KEY, "9")).shown) == {"m7", "m8"}


async def test_a_ledger_out_of_reach_is_an_error_with_its_reason() -> None:
    client = connect("unix:///no/such/socket")
    with pytest.raises(QueueError) as caught:
        await RedisLedger(client, 60).view(KEY, "a")
    await client.aclose()
    assert caught.value.reason is Reason.QUEUE_UNAVAILABLE
