"""The queue while Redis is stopped, frozen, restarting or full."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from os import kill

import pytest

from hooks.contract import Reason
from hooks.protocol import wire
from hooks.queue import QueueClient, QueueFault
from tests.support.queue_worker import running_worker
from tests.support.valkey import running_valkey, sync_redis
from worker.adapters.redis.embedded_valkey import EmbeddedValkey

SLACK_S = 0.5


@pytest.fixture
def valkey() -> Iterator[EmbeddedValkey]:
    with running_valkey() as server:
        yield server


@pytest.fixture
async def queue(valkey: EmbeddedValkey) -> AsyncIterator[QueueClient]:
    client = QueueClient(valkey.url)
    yield client
    await client.aclose()


async def answered_within(queue: QueueClient, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            await queue.ask("echo", {}, budget=1.0)
        except QueueFault:
            await asyncio.sleep(0.05)
        else:
            return True
    return False


async def fault_of(queue: QueueClient, budget: float = 3.0) -> tuple[Reason, float]:
    start = time.monotonic()
    with pytest.raises(QueueFault) as caught:
        await queue.ask("sleep", {"seconds": 20}, budget=budget)
    return caught.value.reason, time.monotonic() - start


async def test_a_missing_redis_is_reported_at_once(valkey: EmbeddedValkey, queue: QueueClient) -> None:
    valkey.stop()
    reason, seconds = await fault_of(queue)
    assert reason is Reason.QUEUE_UNAVAILABLE
    assert seconds < wire.ENQUEUE_TIMEOUT + SLACK_S


async def test_a_frozen_redis_times_out(valkey: EmbeddedValkey, queue: QueueClient) -> None:
    assert valkey.pid is not None
    await queue.warm()
    kill(valkey.pid, signal.SIGSTOP)
    try:
        results = [await fault_of(queue) for _ in range(2)]
    finally:
        kill(valkey.pid, signal.SIGCONT)
    for reason, seconds in results:
        assert reason is Reason.QUEUE_UNAVAILABLE
        assert seconds < wire.ENQUEUE_TIMEOUT + SLACK_S


async def test_a_caller_with_time_waits_for_a_slow_redis(valkey: EmbeddedValkey, queue: QueueClient) -> None:
    assert valkey.pid is not None
    with running_worker(valkey.url):
        assert await answered_within(queue, 5.0)
        kill(valkey.pid, signal.SIGSTOP)
        asked = asyncio.create_task(queue.ask("echo", {}, budget=20.0, ack_timeout=10.0))
        await asyncio.sleep(1.0)
        kill(valkey.pid, signal.SIGCONT)
        await asked


async def test_a_worker_survives_a_frozen_redis(valkey: EmbeddedValkey, queue: QueueClient) -> None:
    assert valkey.pid is not None
    with running_worker(valkey.url) as worker:
        assert await answered_within(queue, 5.0)
        kill(valkey.pid, signal.SIGSTOP)
        await asyncio.sleep(3.0)
        kill(valkey.pid, signal.SIGCONT)
        assert await answered_within(queue, 10.0)
        assert worker.poll() is None


async def test_a_worker_survives_a_restart_of_redis(valkey: EmbeddedValkey, queue: QueueClient) -> None:
    with running_worker(valkey.url) as worker:
        assert await answered_within(queue, 5.0)
        asked = asyncio.create_task(fault_of(queue))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(valkey.stop)
        reason, seconds = await asked
        await asyncio.sleep(1.0)
        assert worker.poll() is None
        await asyncio.to_thread(valkey.start)
        assert await answered_within(queue, 10.0)
        worker.send_signal(signal.SIGTERM)
        _, err = await asyncio.to_thread(worker.communicate, timeout=15)
        assert worker.returncode == 0
        assert "Traceback" not in err
    assert reason is Reason.QUEUE_UNAVAILABLE
    assert seconds < 2.0


async def test_a_worker_waits_for_redis_to_start(valkey: EmbeddedValkey, queue: QueueClient) -> None:
    valkey.stop()
    with running_worker(valkey.url, wait=False) as worker:
        await asyncio.sleep(0.5)
        assert worker.poll() is None
        await asyncio.to_thread(valkey.start)
        assert await answered_within(queue, 10.0)


async def test_a_worker_stops_while_redis_is_away(valkey: EmbeddedValkey) -> None:
    with running_worker(valkey.url) as worker:
        await asyncio.to_thread(valkey.stop)
        await asyncio.sleep(0.3)
        worker.send_signal(signal.SIGTERM)
        out, _ = await asyncio.to_thread(worker.communicate, timeout=15)
        assert worker.returncode == 0
        assert out.endswith("bye\n")


async def test_a_full_redis_is_a_fault(valkey: EmbeddedValkey, queue: QueueClient) -> None:
    with sync_redis(valkey.url) as redis:
        redis.set(wire.ALIVE, 1, px=5000)
        redis.config_set("maxmemory", "1mb")
        reason, seconds = await fault_of(queue)
        redis.config_set("maxmemory", "0")
    assert reason is Reason.QUEUE_UNAVAILABLE
    assert seconds < wire.ENQUEUE_TIMEOUT + SLACK_S


async def test_the_client_works_after_cancelled_calls(valkey: EmbeddedValkey, queue: QueueClient) -> None:
    with running_worker(valkey.url):
        assert await answered_within(queue, 5.0)
        for delay in (0.0, 0.0005, 0.001, 0.002, 0.004) * 10:
            asked = asyncio.create_task(queue.ask("sleep", {"seconds": 0.3}, budget=1.0))
            await asyncio.sleep(delay)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        await asyncio.sleep(1.0)
        assert await answered_within(queue, 5.0)
