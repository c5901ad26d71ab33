"""Usage counts in a real Valkey and in a file."""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hooks.contract import Reason
from hooks.queue import connect
from tests.support.valkey import forget, running_valkey, sync_redis
from worker.adapters.local.usage import FileUsage
from worker.adapters.redis.usage import RedisUsage
from worker.domain.errors import QueueError
from worker.domain.usage import Usage
from worker.ports.state import UsageStore

FIRST, SECOND = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_valkey() as server:
        yield server.url


@pytest.fixture(params=["redis", "file"])
async def usage(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> AsyncIterator[UsageStore]:
    if request.param == "file":
        yield FileUsage(tmp_path / "data" / "usage.json")
        return
    client = connect(url)
    yield RedisUsage(client)
    await client.aclose()
    forget(url)


async def test_answers_are_counted(usage: UsageStore) -> None:
    assert await usage.count("t1", "r1", {"a": True, "b": False}, FIRST)
    assert await usage.count("t1", "r2", {"a": False}, SECOND)
    assert await usage.read("t1", ["a", "b", "c"]) == {"a": Usage(2, 1, SECOND, FIRST), "b": Usage(1, 0, FIRST, None)}
    assert await usage.read_all("t1") == await usage.read("t1", ["a", "b"])
    assert await usage.read("t1", []) == {}


async def test_an_answer_counts_once(usage: UsageStore) -> None:
    assert await usage.count("t1", "r1", {"a": True}, FIRST)
    assert not await usage.count("t1", "r1", {"a": True}, SECOND)
    assert await usage.read("t1", ["a"]) == {"a": Usage(1, 1, FIRST, FIRST)}
    assert not await usage.count("t1", "r2", {}, FIRST)


async def test_tenants_do_not_see_each_others(usage: UsageStore) -> None:
    await usage.count("a:b", "r1", {"m": True}, FIRST)
    assert await usage.read_all("a") == {}
    assert await usage.count("a", "b:r1", {"m": True}, FIRST)
    assert await usage.read_all("a:b") == {"m": Usage(1, 1, FIRST, FIRST)}


async def test_forgotten_counts_are_gone(usage: UsageStore) -> None:
    await usage.forget("t1", ["nothing"])
    await usage.count("t1", "r1", {"a b": True, "ü:\n": False}, FIRST)
    await usage.forget("t1", ["a b", "never there"])
    assert await usage.read_all("t1") == {"ü:\n": Usage(1, 0, FIRST, None)}


async def test_every_key_in_redis_expires(url: str) -> None:
    client = connect(url)
    await RedisUsage(client).count("t1", "r1", {"a": True}, FIRST)
    await client.aclose()
    with sync_redis(url) as redis:
        keys = redis.keys("meeseeks:usage*")
        assert len(keys) == 2
        assert all(redis.ttl(key) > 0 for key in keys)
    forget(url)


async def test_unreachable_counts_are_an_error_with_a_reason() -> None:
    client = connect("unix:///no/such/socket")
    for call in (RedisUsage(client).read_all("t1"), RedisUsage(client).count("t1", "r", {"a": True}, FIRST)):
        with pytest.raises(QueueError) as caught:
            await call
        assert caught.value.reason is Reason.QUEUE_UNAVAILABLE
    await client.aclose()


def test_processes_that_share_a_file_lose_no_count(tmp_path: Path) -> None:
    def work(worker: int) -> None:
        for number in range(20):
            FileUsage(tmp_path / "usage.json")._count("t1", f"{worker}-{number}", {"a": True}, FIRST)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert FileUsage(tmp_path / "usage.json")._read()["tenants"]["t1"]["a"]["injected"] == 80


@pytest.mark.parametrize("content", ['{"tenants": {"t1": {"a": {"inj', "[]", '{"counted": []}', "\x00\xff"])
async def test_a_damaged_file_is_kept_aside_and_counting_goes_on(content: str, tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    path.write_text(content, encoding="latin-1")
    usage = FileUsage(path)
    assert await usage.read_all("t1") == {}
    assert await usage.count("t1", "r1", {"a": True}, FIRST)
    assert await usage.read("t1", ["a"]) == {"a": Usage(1, 1, FIRST, FIRST)}
    assert path.with_name("usage.json.damaged").read_text(encoding="latin-1") == content


async def test_a_damaged_count_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    whole = {"injected": 2, "used": 1, "last_injected": FIRST.isoformat(), "last_used": None}
    damaged = {"b": {"injected": "x"}, "c": 7, "d": {"last_used": "yesterday"}}
    path.write_text(json.dumps({"tenants": {"t1": {"a": whole, **damaged}}}), encoding="utf-8")
    usage = FileUsage(path)
    assert await usage.read_all("t1") == {"a": Usage(2, 1, FIRST, None)} | dict.fromkeys("bcd", Usage())
    assert await usage.count("t1", "r1", dict.fromkeys("abcd", True), SECOND)
    assert (await usage.read("t1", ["a", "c"])) == {"a": Usage(3, 2, SECOND, SECOND), "c": Usage(1, 1, SECOND, SECOND)}


async def test_a_damaged_count_in_redis_costs_only_itself(url: str) -> None:
    client = connect(url)
    await client.hset("meeseeks:usage:t1", mapping={"a": "1 1 5 5", "b": "torn"})
    usage = RedisUsage(client)
    assert (await usage.read_all("t1"))["b"] == Usage()
    assert await usage.count("t1", "r1", {"a": True, "b": True}, FIRST)
    counts = await usage.read("t1", ["a", "b"])
    assert (counts["a"].used, counts["b"]) == (2, Usage(1, 1, FIRST, FIRST))
    await client.aclose()
    forget(url)
