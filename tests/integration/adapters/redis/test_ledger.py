"""Ledgers in a real Valkey and in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest

from hooks.contract import Reason
from hooks.queue import connect
from tests.support.real_servers import REDIS_KINDS, redis_of
from tests.support.valkey import forget, sync_redis
from worker.adapters.local.ledger import MemoryLedger
from worker.adapters.redis.ledger import KEPT_TURNS, RedisLedger, ledger_key
from worker.domain.errors import QueueError
from worker.domain.ledger import UNSEEN, LedgerEntry, LedgerKey
from worker.ports.state import Ledger

KEY = LedgerKey("tenant", "session", "agent")
DEPTH = 100


async def give(ledger: Ledger, turn_key: str, *names: str, key: LedgerKey = KEY, **fields: Any) -> int:
    """Deliver a turn that shows memories in one block, and return its number."""
    view = await ledger.view(key, turn_key, depth=DEPTH)
    block = f"block-{view.turn}"
    shown = {name: LedgerEntry(1, view.turn, block, **fields) for name in names}
    await ledger.offer(key, turn_key, "answer", shown)
    assert await ledger.commit(key, turn_key)
    return view.turn


async def shown(ledger: Ledger, key: LedgerKey = KEY) -> set[str]:
    return set((await ledger.peek(key)).shown)


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[str], str]]:
    """Return the address of a server of a kind, which is started once."""
    with ExitStack() as stack:
        yield cache(lambda kind: stack.enter_context(redis_of(kind)))


@pytest.fixture(params=REDIS_KINDS)
def url(request: pytest.FixtureRequest, servers: Callable[[str], str]) -> str:
    return servers(request.param)


@pytest.fixture
async def redis(url: str) -> AsyncIterator[Any]:
    client = connect(url)
    yield client
    await client.aclose()
    forget(url)


@pytest.fixture
def kept(redis: Any) -> RedisLedger:
    return RedisLedger(redis, ttl_s=60)


@pytest.fixture(params=["memory", *REDIS_KINDS])
async def ledger(request: pytest.FixtureRequest, servers: Callable[[str], str]) -> AsyncIterator[Ledger]:
    """Yield a ledger of each kind."""
    if request.param == "memory":
        yield MemoryLedger()
        return
    client = connect(servers(request.param))
    yield RedisLedger(client, ttl_s=60)
    await client.aclose()
    forget(servers(request.param))


def entry(turn: int, version: int = 1) -> LedgerEntry:
    return LedgerEntry(version=version, turn=turn, block_id=f"block-{turn}")


async def test_turns_are_numbered_and_a_repeated_one_keeps_its_number(ledger: Ledger) -> None:
    views = [await ledger.view(KEY, turn_id, depth=DEPTH) for turn_id in ("a", "b", "a", "c")]
    assert [view.turn for view in views] == [1, 2, 1, 3]
    assert views[0].shown == {}
    assert all(view.replay is None for view in views)


async def test_an_offer_counts_once_committed(ledger: Ledger) -> None:
    await ledger.view(KEY, "a", depth=DEPTH)
    await ledger.offer(KEY, "a", '{"answer":1}', {"m1": entry(1), "\u00fc:2": entry(1, version=7)})
    before = await ledger.view(KEY, "b", depth=DEPTH)
    assert await ledger.commit(KEY, "a")
    assert await ledger.commit(KEY, "a")
    after = await ledger.view(KEY, "b", depth=DEPTH)
    assert before.shown == {}
    assert after.shown == {"m1": entry(1), "\u00fc:2": entry(1, version=7)}


async def test_an_answered_turn_replays_its_first_answer(ledger: Ledger) -> None:
    await ledger.view(KEY, "a", depth=DEPTH)
    await ledger.offer(KEY, "a", "first \u20ac", {"m1": entry(1)})
    await ledger.offer(KEY, "a", "second", {"m2": entry(1)})
    assert (await ledger.view(KEY, "a", depth=DEPTH)).replay == "first \u20ac"
    assert await ledger.commit(KEY, "a")
    assert set((await ledger.view(KEY, "b", depth=DEPTH)).shown) == {"m1"}


async def test_only_offers_can_be_committed(ledger: Ledger) -> None:
    assert not await ledger.commit(KEY, "never seen")
    await ledger.view(KEY, "seen", depth=DEPTH)
    assert not await ledger.commit(KEY, "seen")
    await ledger.offer(KEY, "seen", "nothing to show", {})
    assert await ledger.commit(KEY, "seen")


async def test_a_turn_may_be_offered_without_having_been_viewed(ledger: Ledger) -> None:
    await ledger.offer(KEY, "a", "answer", {"m1": entry(1)})
    assert await ledger.commit(KEY, "a")
    assert (await ledger.view(KEY, "b", depth=DEPTH)).turn == 2


async def test_a_memory_shown_again_is_counted_from_its_last_turn(ledger: Ledger) -> None:
    for turn, turn_id in enumerate(("a", "b"), 1):
        await ledger.view(KEY, turn_id, depth=DEPTH)
        await ledger.offer(KEY, turn_id, "answer", {"m1": entry(turn, version=turn)})
        await ledger.commit(KEY, turn_id)
    assert (await ledger.view(KEY, "c", depth=DEPTH)).shown == {"m1": entry(2, version=2)}


async def test_sessions_agents_and_tenants_do_not_see_each_other(ledger: Ledger) -> None:
    await ledger.offer(KEY, "a", "answer", {"m1": entry(1)})
    await ledger.commit(KEY, "a")
    for other in (LedgerKey("other", "session", "agent"), LedgerKey("tenant", "session", "other")):
        assert (await ledger.view(other, "a", depth=DEPTH)).shown == {}


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


async def test_parallel_turns_lose_nothing(ledger: Ledger) -> None:
    async def one(number: int) -> int:
        turn_id = f"turn-{number}"
        view = await ledger.view(KEY, turn_id, depth=DEPTH)
        await ledger.offer(KEY, turn_id, "answer", {f"m{number}": entry(view.turn)})
        assert await ledger.commit(KEY, turn_id)
        return view.turn

    turns = await asyncio.gather(*(one(number) for number in range(12)))
    assert sorted(turns) == list(range(1, 13))
    assert set((await ledger.view(KEY, "last", depth=DEPTH)).shown) == {f"m{number}" for number in range(12)}


async def test_old_turns_are_forgotten_but_their_memories_are_not(kept: RedisLedger, url: str) -> None:
    for number in range(KEPT_TURNS + 20):
        await give(kept, f"turn-{number}:0123456789ab", f"m{number}")
    with sync_redis(url) as client:
        fields = client.hkeys(ledger_key(KEY))
    for family in (b"t:", b"r:", b"i:", b"u:"):
        assert sum(field.startswith(family) for field in fields) == KEPT_TURNS
    assert len(await shown(kept)) == KEPT_TURNS + 20
    assert not await kept.commit(KEY, "turn-3:0123456789ab")


async def test_p6_what_was_shown_long_ago_is_forgotten(ledger: Ledger) -> None:
    for number in range(1, 6):
        await give(ledger, str(number), f"m{number}", lasting=number == 1)
    view = await ledger.view(KEY, "6", depth=3)
    assert view.turn == 6
    assert set(view.shown) == {"m1", "m4", "m5"}
    assert await shown(ledger) == {"m1", "m4", "m5"}


async def test_requests_of_one_turn_share_only_its_number(ledger: Ledger) -> None:
    await ledger.offer(KEY, "a:one", "first", {"m1": entry(1)})
    view = await ledger.view(KEY, "a:two", depth=DEPTH)
    assert (view.turn, view.replay) == (1, None)
    assert (await ledger.view(KEY, "a:one", depth=DEPTH)).replay == "first"
    assert (await ledger.view(KEY, "a:b:one", depth=DEPTH)).turn == 2


async def test_entries_come_back_as_they_were_given(ledger: Ledger) -> None:
    given = LedgerEntry(3, 1, "b", 'He said "no"\n\u20ac, "turn":9, "lasting":true', bytes(range(256)), lasting=False)
    await ledger.offer(KEY, "a", "answer", {"m1": given})
    await ledger.commit(KEY, "a")
    assert (await ledger.view(KEY, "b", depth=1)).shown == {}
    await ledger.offer(KEY, "b", "answer", {"m1": given})
    await ledger.commit(KEY, "b")
    assert (await ledger.peek(KEY)).shown == {"m1": given}


async def test_peek_begins_no_turn(ledger: Ledger) -> None:
    assert (await ledger.peek(KEY)).turn == 0
    assert await ledger.agents("tenant", "session") == ()
    await give(ledger, "a", "m1")
    assert (await ledger.peek(KEY)).turn == 1
    assert (await ledger.view(KEY, "b", depth=DEPTH)).turn == 2


async def test_agents_of_a_session_are_known_until_they_are_reset(ledger: Ledger) -> None:
    other = LedgerKey("tenant", "session", "scout")
    await give(ledger, "a", "m1", "m2")
    await give(ledger, "a", "m1", key=other)
    assert await ledger.agents("tenant", "session") == ("agent", "scout")
    assert await ledger.reset(KEY) == 2
    assert await ledger.reset(KEY) == 0
    assert await ledger.agents("tenant", "session") == ("scout",)
    assert await shown(ledger, other) == {"m1"}


async def test_a_late_commit_after_a_reset_counts_nothing(ledger: Ledger) -> None:
    await ledger.offer(KEY, "a", "answer", {"m1": entry(1)})
    await ledger.reset(KEY)
    assert not await ledger.commit(KEY, "a")
    assert await shown(ledger) == set()


async def test_drop_keeps_entries_shown_again_since(ledger: Ledger) -> None:
    await give(ledger, "a", "m1", "m2")
    seen = (await ledger.peek(KEY)).shown
    await give(ledger, "b", "m1")
    assert await ledger.drop(KEY, seen) == 1
    assert await shown(ledger) == {"m1"}


async def test_a_compaction_is_pending_until_something_is_dropped(ledger: Ledger) -> None:
    await ledger.begin_compaction(KEY)
    assert (await ledger.peek(KEY)).pending is None
    await give(ledger, "a", "m1")
    await ledger.begin_compaction(KEY)
    assert (await ledger.view(KEY, "b", depth=DEPTH)).pending == 1
    await ledger.drop(KEY, {})
    assert (await ledger.peek(KEY)).pending is None


async def test_adopted_entries_count_and_the_turn_number_continues(ledger: Ledger) -> None:
    await give(ledger, "a", "m1")
    assert await ledger.adopt(KEY, 7, {"m1": entry(5), "m2": entry(6)}) == 1
    assert (await ledger.peek(KEY)).shown == {"m1": LedgerEntry(1, 1, "block-1"), "m2": entry(6)}
    assert await ledger.adopt(KEY, 7, {"m1": entry(5), "m2": entry(6)}) == 0
    assert (await ledger.view(KEY, "b", depth=DEPTH)).turn == 8


async def test_a_withdrawn_turn_counts_again_once_it_is_delivered(ledger: Ledger) -> None:
    await give(ledger, "a:0123456789ab", "m1")
    await give(ledger, "b:0123456789ab", "m2")
    assert await ledger.withdraw(KEY, "b") == 1
    assert await ledger.withdraw(KEY, "b") == 0
    assert await ledger.withdraw(KEY, "never seen") == 0
    assert await shown(ledger) == {"m1"}
    assert await ledger.commit(KEY, "b:0123456789ab")
    assert await shown(ledger) == {"m1", "m2"}


async def test_blocks_are_available_to_every_session_of_the_tenant(ledger: Ledger) -> None:
    await give(ledger, "a", "m1", "m2")
    assert set(await ledger.blocks("tenant", ["block-1", "unknown"])) == {"m1", "m2"}
    assert await ledger.blocks("other", ["block-1"]) == {}
    assert await ledger.blocks("tenant", []) == {}


async def test_an_unreachable_ledger_is_an_error_with_a_reason() -> None:
    client = connect("unix:///no/such/socket")
    with pytest.raises(QueueError) as caught:
        await RedisLedger(client, 60).view(KEY, "a", depth=DEPTH)
    await client.aclose()
    assert caught.value.reason is Reason.QUEUE_UNAVAILABLE


async def test_what_was_shown_without_knowing_the_turn_counts_from_the_current_one(ledger: Ledger) -> None:
    for number in range(DEPTH + 3):
        await give(ledger, f"t{number}", f"m{number}")
    unknown = LedgerEntry(1, 0, "block-x", text='says "turn":0, and stays')
    await ledger.offer(KEY, "late", "answer", {"x": unknown, "y": unknown})
    assert await ledger.commit(KEY, "late")
    view = await ledger.view(KEY, "next", depth=DEPTH)
    assert (view.shown["x"].turn, view.shown["y"].turn) == (view.turn - 1, view.turn - 1)
    assert view.shown["x"].text == unknown.text


async def test_an_offer_reserves_its_memories_against_parallel_turns(ledger: Ledger) -> None:
    first, second = [await ledger.view(KEY, turn, depth=DEPTH) for turn in ("a", "b")]
    assert await ledger.offer(KEY, "a", "answer", {"m1": entry(1), "m2": entry(1)}, seen=first.offers) == frozenset()
    assert await ledger.offer(KEY, "b", "answer", {"m2": entry(2), "m3": entry(2)}, seen=second.offers) == {"m2"}
    assert not await ledger.commit(KEY, "b"), "nothing was kept"
    assert await ledger.offer(KEY, "b", "answer", {"m3": entry(2)}, seen=second.offers) == frozenset()
    edited = {"m1": entry(2, version=2)}
    assert await ledger.offer(KEY, "c", "answer", edited, seen=second.offers) == frozenset()


async def test_an_offer_that_was_given_up_reserves_nothing(ledger: Ledger) -> None:
    first = await ledger.view(KEY, "a", depth=DEPTH)
    await ledger.offer(KEY, "a", "answer", {"m1": entry(1)}, seen=first.offers)
    assert await ledger.offer(KEY, "b", "answer", {"m1": entry(2)}, seen=0) == {"m1"}
    await ledger.withdraw(KEY, "a")
    assert await ledger.offer(KEY, "b", "answer", {"m1": entry(2)}, seen=0) == frozenset()


async def test_without_a_view_everything_shown_is_taken_however_long_ago(ledger: Ledger) -> None:
    await ledger.offer(KEY, "first", "answer", {"m1": entry(1), "m2": entry(1)})
    await ledger.commit(KEY, "first")
    for number in range(KEPT_TURNS + 1):
        await ledger.view(KEY, f"later {number}", depth=DEPTH)
    wanted = {"m1": entry(0), "m2": entry(0, version=2), "m3": entry(0)}
    assert await ledger.offer(KEY, "unseen", "answer", wanted, seen=UNSEEN) == {"m1"}
    del wanted["m1"]
    assert await ledger.offer(KEY, "unseen", "answer", wanted, seen=UNSEEN) == frozenset()


async def test_turns_one_after_another_are_not_reserved_against(ledger: Ledger) -> None:
    await ledger.offer(KEY, "late", "answer", {"m1": entry(1)}, seen=0)
    after = await ledger.view(KEY, "b", depth=DEPTH)
    assert await ledger.offer(KEY, "b", "answer", {"m1": entry(2)}, seen=after.offers) == frozenset()


@pytest.mark.parametrize("trial", range(20))
async def test_parallel_offers_show_a_memory_once(ledger: Ledger, trial: int) -> None:
    turns = [f"{trial}-{number}" for number in range(8)]
    views = {turn: await ledger.view(KEY, turn, depth=DEPTH) for turn in turns}

    async def offered(turn: str) -> frozenset[str]:
        return await ledger.offer(KEY, turn, "answer", {"m1": entry(1)}, seen=views[turn].offers)

    taken = await asyncio.gather(*map(offered, turns))
    assert sorted(map(len, taken)) == [0, *[1] * 7]


async def test_a_full_redis_still_says_what_was_shown(kept: RedisLedger, url: str) -> None:
    await give(kept, "a", "m1")
    with sync_redis(url) as redis:
        before = redis.config_get("maxmemory")
        try:
            redis.config_set("maxmemory", 1)
            with pytest.raises(QueueError):
                await kept.view(KEY, "b", depth=DEPTH)
            assert await shown(kept) == {"m1"}
        finally:
            redis.config_set("maxmemory", before["maxmemory"])
