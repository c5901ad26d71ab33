"""The queue with a real Valkey and real worker processes."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from arq import create_pool
from arq.connections import RedisSettings

from hooks.contract import Reason
from hooks.protocol import wire
from hooks.queue import QueueClient, QueueFault, Reply, connect
from hooks.queue.client import _Job
from tests.support.load import Stopwatch
from tests.support.queue_worker import running_worker
from tests.support.real_servers import REDIS_KINDS, redis_of
from tests.support.valkey import forget, sync_redis
from worker.adapters.redis.job_worker import UPKEEP

SLACK_S = 0.5
"""Tolerance in seconds on busy machines."""


@pytest.fixture(scope="module", params=REDIS_KINDS)
def valkey_url(request: pytest.FixtureRequest) -> Iterator[str]:
    with redis_of(request.param) as url:
        yield url


@pytest.fixture
def url(valkey_url: str) -> Iterator[str]:
    yield valkey_url
    forget(valkey_url)


@pytest.fixture
async def queue(url: str) -> AsyncIterator[QueueClient]:
    client = QueueClient(url)
    yield client
    await client.aclose()


async def ask_until_answered(queue: QueueClient, function: str = "echo", seconds: float = 10.0) -> dict[str, object]:
    """Retry while there is no worker or no Redis."""
    end = time.monotonic() + seconds
    while True:
        try:
            return (await queue.ask(function, {"again": True}, budget=2.0)).body
        except QueueFault:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.05)


async def until_listening(url: str, clients: int) -> None:
    """Wait until so many workers, for jobs, and callers, for answers, are listening."""
    with sync_redis(url) as redis:
        while redis.info("clients")["blocked_clients"] < clients:
            await asyncio.sleep(0.005)


async def running_job(queue: QueueClient, trace: Path, seconds: float) -> "asyncio.Task[Reply]":
    """Return a job that has begun to sleep."""
    job = {"seconds": seconds, "trace": str(trace)}
    asked = asyncio.create_task(queue.ask("sleep", job, budget=20.0, ack_timeout=5.0))
    while not trace.exists():
        await asyncio.sleep(0.01)
    return asked


async def fault_of(
    queue: QueueClient,
    function: str,
    payload: dict[str, object],
    budget: float,
    ack_timeout: float = wire.ACK_TIMEOUT,
) -> tuple[Reason, float]:
    """Return the reason and duration of a failing call."""
    watch = Stopwatch()
    with pytest.raises(QueueFault) as caught:
        await queue.ask(function, payload, budget=budget, ack_timeout=ack_timeout)
    return caught.value.reason, watch.seconds


async def test_a_job_is_answered(url: str, queue: QueueClient) -> None:
    with running_worker(url):
        reply = await queue.ask("echo", {"word": "caf\u00e9"}, budget=10.0, ack_timeout=5.0)
    assert reply.body["payload"] == {"word": "caf\u00e9"}
    assert 5.0 < reply.body["left"] <= 9.9


async def test_bytes_are_passed_unparsed(url: str, queue: QueueClient) -> None:
    with running_worker(url):
        reply = await queue.ask("echo", b' {"a": "\xed\xa0\x80 \\ud83d\\ude00 \xff"}', budget=10.0, ack_timeout=5.0)
    assert reply.body["payload"] == {"a": "\ufffd\ufffd\ufffd \U0001f600 \ufffd"}


async def test_text_with_surrogates_and_a_megabyte_of_it(url: str, queue: QueueClient) -> None:
    with running_worker(url):
        short = await queue.ask("echo", {"text": "a\ud800b"}, budget=10.0, ack_timeout=5.0)
        long = await queue.ask("echo", {"text": "caf\u00e9 " * 200_000}, budget=20.0, ack_timeout=5.0)
    assert short.body["payload"] == {"text": "a\ufffdb"}
    assert long.body["payload"] == {"text": "caf\u00e9 " * 200_000}


async def test_twenty_concurrent_jobs(url: str, queue: QueueClient) -> None:
    with running_worker(url):
        asked = [queue.ask("sleep", {"seconds": 0.2}, budget=10.0, ack_timeout=5.0) for _ in range(20)]
        replies = await asyncio.gather(*asked)
    assert [reply.body["slept"] for reply in replies] == [0.2] * 20


async def test_full_workers_share_jobs(url: str, queue: QueueClient) -> None:
    with running_worker(url, max_jobs=1), running_worker(url, max_jobs=1):
        await until_listening(url, 2)
        asked = [queue.ask("sleep", {"seconds": 0.3}, budget=10.0, ack_timeout=5.0) for _ in range(6)]
        replies = await asyncio.gather(*asked)
    assert len({reply.body["pid"] for reply in replies}) == 2


async def test_a_full_worker_leaves_jobs_to_a_free_one(url: str, queue: QueueClient, tmp_path: Path) -> None:
    with running_worker(url, max_jobs=1), running_worker(url, max_jobs=1):
        await until_listening(url, 2)
        long = await running_job(queue, tmp_path / "trace", seconds=3.0)
        for _ in range(10):
            await until_listening(url, 2)  # the free worker and the caller of the long job
            await queue.ask("echo", {}, budget=20.0, ack_timeout=5.0)
        assert not long.done(), "a short job waited for the long one"


async def test_upkeep_leaves_a_young_job_to_the_worker_that_is_about_to_claim_it(url: str) -> None:
    lifetime_ms, limit, free, least_age_ms = 20_000, 10, 10, 10_000
    with sync_redis(url) as redis:
        now = 1000 * time.time()
        for job_id, age_ms in (("young", 0), ("old", 2 * least_age_ms)):
            redis.set(wire.JOB_PREFIX + job_id, wire.job_json("echo", b"{}", lifetime_ms, 0), px=lifetime_ms)
            redis.zadd(wire.QUEUE, {job_id: now - age_ms})
        redis.pexpire(wire.QUEUE, lifetime_ms)
        arguments = (lifetime_ms, limit, free, wire.IN_PROGRESS_PREFIX, wire.JOB_PREFIX, least_age_ms)
        assert redis.eval(UPKEEP, 2, wire.QUEUE, wire.ALIVE, *arguments) == [b"old"]


async def test_a_full_worker_takes_a_job_of_a_clock_that_was_ahead(
    url: str, queue: QueueClient, tmp_path: Path
) -> None:
    with running_worker(url, max_jobs=1), sync_redis(url) as redis:
        long = await running_job(queue, tmp_path / "trace", seconds=2.0)
        hour_ahead = 1000 * (time.time() + 3600)
        with redis.pipeline(transaction=True) as put:
            put.set(wire.JOB_PREFIX + "ahead", wire.job_json("echo", b"{}", 20_000, 0), px=20_000)
            put.zadd(wire.QUEUE, {"ahead": hour_ahead})
            put.rpush(wire.WAKE, "ahead")
            put.pexpire(wire.WAKE, wire.WAKE_TTL_MS)
            put.execute()
        accepted = await asyncio.to_thread(redis.blpop, wire.REPLY_PREFIX + "ahead", 1.5)
        await long
    assert accepted == ((wire.REPLY_PREFIX + "ahead").encode(), wire.ACK)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("crash", Reason.INTERNAL),
        ("locked", Reason.STORE_UNAVAILABLE),
        ("no_such_operation", Reason.BAD_REQUEST),
    ],
)
async def test_failures_are_returned_at_once(url: str, queue: QueueClient, function: str, reason: Reason) -> None:
    with running_worker(url):
        found, seconds = await fault_of(queue, function, {}, budget=5.0, ack_timeout=5.0)
        assert await ask_until_answered(queue)
    assert found is reason
    assert seconds < 2.0


async def test_a_job_that_is_not_json_is_answered(url: str, queue: QueueClient) -> None:
    with running_worker(url), pytest.raises(QueueFault) as caught:
        await queue.ask("echo", b'{"a":', budget=10.0, ack_timeout=5.0)
    assert caught.value.reason is Reason.BAD_REQUEST


async def test_the_worker_answers_before_its_caller_gives_up(url: str, queue: QueueClient) -> None:
    with running_worker(url):
        reply = await queue.ask("until_deadline", {}, budget=2.0, ack_timeout=2.0)
    assert reply.body == {"done": True}


async def test_a_job_of_plain_arq_is_answered_on_the_same_list(url: str) -> None:
    client = connect(url)
    with running_worker(url):
        job = await client.enqueue_job("echo", payload={"a": 1}, _queue_name=wire.QUEUE)
        assert job is not None
        key = wire.REPLY_PREFIX + job.job_id
        ack = await client.blpop([key], timeout=3)
        answer = await client.blpop([key], timeout=3)
        with sync_redis(url) as redis:
            assert redis.keys("arq:*") == [], "the job is removed with the answer"
            assert redis.zcard(wire.QUEUE) == 0
    await client.aclose()
    assert ack[1] == wire.ACK
    body = json.loads(answer[1])["ok"]
    assert body["payload"] == {"a": 1}
    assert 1.5 < body["left"] <= 2.85


async def test_the_documented_client_of_plain_arq_is_answered_and_pickle_is_refused(url: str) -> None:
    settings = RedisSettings.from_dsn(url)
    plain = await create_pool(
        settings, job_serializer=lambda job: json.dumps(job).encode(), default_queue_name=wire.QUEUE
    )
    pickling = await create_pool(settings, default_queue_name=wire.QUEUE)
    with running_worker(url):
        job, refused = (
            await plain.enqueue_job("echo", {"a": 1}, 3000),
            await pickling.enqueue_job("echo", {"a": 1}, 3000),
        )
        assert job is not None
        assert refused is not None
        answers = []
        for one in (job, refused):
            reply = wire.REPLY_PREFIX + one.job_id
            assert (await plain.blpop([reply], timeout=3))[1] == wire.ACK
            answers.append(json.loads((await plain.blpop([reply], timeout=3))[1]))
    await plain.aclose()
    await pickling.aclose()
    assert answers[0]["ok"]["payload"] == {"a": 1}
    assert answers[1]["error"]["reason"] == "bad_request"


async def test_a_missing_worker_is_reported_at_once(url: str, queue: QueueClient) -> None:
    await queue.warm()
    reason, seconds = await fault_of(queue, "echo", {}, budget=3.0)
    assert reason is Reason.NO_WORKER
    assert seconds < SLACK_S
    with sync_redis(url) as redis:
        assert redis.keys() == []


async def test_a_worker_is_not_alive_before_it_has_started_up(url: str, queue: QueueClient) -> None:
    with running_worker(url, startup_s=1.5, wait=False) as worker:
        assert (await fault_of(queue, "echo", {}, budget=3.0))[0] is Reason.NO_WORKER
        await asyncio.to_thread(worker.wait_until_serving)
        assert await ask_until_answered(queue)


async def test_a_job_of_a_frozen_worker_is_withdrawn(url: str, queue: QueueClient) -> None:
    with running_worker(url) as worker:
        await queue.warm()
        worker.send_signal(signal.SIGSTOP)
        reason, seconds = await fault_of(queue, "echo", {}, budget=3.0)
        with sync_redis(url) as redis:
            assert redis.keys(wire.JOB_PREFIX + "*") == []
            assert redis.zcard(wire.QUEUE) == 0
        worker.send_signal(signal.SIGCONT)
        assert await ask_until_answered(queue)
    assert reason is Reason.NO_ACK
    assert seconds < wire.ACK_TIMEOUT + wire.GIVE_UP_TIMEOUT + SLACK_S


async def test_a_caller_that_is_too_busy_to_read_the_acknowledgement_is_answered(
    url: str, queue: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pop = _Job._pop

    async def late(job: _Job, seconds: float) -> bytes:
        time.sleep(2 * wire.ACK_TIMEOUT)
        return await pop(job, seconds)

    monkeypatch.setattr(_Job, "_pop", late)
    with running_worker(url):
        assert await ask_until_answered(queue)


async def test_a_burst_of_two_hundred_is_accepted_in_few_steps(url: str, queue: QueueClient) -> None:
    jobs = [f"job-{n}" for n in range(wire.MAX_WAITING)]
    body = wire.job_json("sleep", b'{"seconds":5}', 9_000, 0)
    with running_worker(url) as worker, sync_redis(url) as redis:
        assert await ask_until_answered(queue)
        enqueue = redis.register_script(wire.ENQUEUE)
        with redis.pipeline() as burst:
            for job in jobs:
                limits = (job, body, 9_000, wire.MAX_WAITING, wire.WAKE_TTL_MS)
                enqueue(wire.enqueue_keys(job), limits, client=burst)
            burst.execute()
        before = redis.info("commandstats")["cmdstat_eval"]["calls"]
        while redis.exists(*(wire.REPLY_PREFIX + job for job in jobs)) < len(jobs):
            await asyncio.sleep(0.01)
        steps = redis.info("commandstats")["cmdstat_eval"]["calls"] - before
        worker.kill()
    assert steps < 15


async def test_a_killed_worker_loses_one_answer_and_no_job_runs_twice(
    url: str, queue: QueueClient, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    with running_worker(url) as first, ExitStack() as later:
        asked = asyncio.create_task(fault_of(queue, "sleep", {"seconds": 5, "trace": str(trace)}, budget=1.5))
        while not trace.exists():
            await asyncio.sleep(0.01)
        first.kill()
        await asyncio.to_thread(later.enter_context, running_worker(url))
        assert await ask_until_answered(queue)
        reason, seconds = await asked
        await asyncio.sleep(1.2)
        with sync_redis(url) as redis:
            assert redis.keys(wire.JOB_PREFIX + "*") == []
    assert reason is Reason.DEADLINE
    assert seconds < 1.5 + SLACK_S
    assert trace.read_text() == "start\n"


async def test_a_job_is_refused_when_too_many_wait(url: str, queue: QueueClient) -> None:
    with sync_redis(url) as redis:
        redis.set(wire.ALIVE, 1, px=2000)
        redis.rpush(wire.WAKE, *(f"waiting-{n}" for n in range(wire.MAX_WAITING)))
        redis.pexpire(wire.WAKE, 2000)
        reason, _ = await fault_of(queue, "echo", {}, budget=3.0)
        assert reason is Reason.BUSY
        assert redis.llen(wire.WAKE) == wire.MAX_WAITING
        assert redis.zcard(wire.QUEUE) == 0


async def test_a_full_worker_refuses_at_once_what_it_cannot_answer_in_time_and_stays_alive(
    url: str, queue: QueueClient, tmp_path: Path
) -> None:
    with running_worker(url, max_jobs=1):
        long = await running_job(queue, tmp_path / "trace", seconds=8.0)
        await asyncio.sleep(3.0)
        reason, seconds = await fault_of(queue, "echo", {}, budget=2.0, ack_timeout=2.0)
        assert not long.done()
        assert (await long).body["slept"] == 8.0
        assert await ask_until_answered(queue)
    assert reason is Reason.BUSY
    assert seconds < SLACK_S


async def test_forty_callers_with_time_to_wait_are_all_answered(url: str, queue: QueueClient) -> None:
    with running_worker(url):
        asked = [queue.ask("compute", {"agent": f"agent {n}"}, budget=10.0, ack_timeout=5.0) for n in range(40)]
        assert len(await asyncio.gather(*asked)) == 40


async def test_a_quiet_caller_is_served_beside_a_flood(url: str, queue: QueueClient) -> None:
    async def flood() -> None:
        while True:
            await queue.ask("compute", {"agent": "flood"}, budget=20.0, ack_timeout=5.0)

    async def quiet() -> list[float]:
        """Return the seconds of some calls, without the slowest one."""
        spent = []
        for _ in range(20):
            watch = Stopwatch()
            await queue.ask("compute", {"agent": "quiet"}, budget=20.0, ack_timeout=5.0)
            spent.append(watch.seconds)
        return sorted(spent)[:-1]

    with running_worker(url):
        alone = await quiet()
        flooding = [asyncio.create_task(flood()) for _ in range(40)]
        await queue.ask("compute", {"agent": "flood"}, budget=20.0, ack_timeout=5.0)
        beside = await quiet()
        for task in flooding:
            task.cancel()
        await asyncio.wait(flooding)
    assert max(beside) < 3 * max(alone) + 0.25
    assert max(beside) < 40 * 0.02, "it waited for the whole flood"


async def test_withdrawn_and_late_jobs_do_not_run(url: str, queue: QueueClient, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with running_worker(url) as worker:
        await ask_until_answered(queue)
        worker.send_signal(signal.SIGSTOP)
        await fault_of(queue, "sleep", {"seconds": 0, "trace": str(trace)}, budget=0.1)
        await fault_of(queue, "sleep", {"seconds": 0, "trace": str(trace)}, budget=3.0)
        worker.send_signal(signal.SIGCONT)
        assert await ask_until_answered(queue)
        await asyncio.sleep(0.7)
    assert not trace.exists()


async def test_expired_ids_do_not_delay_new_jobs_and_are_removed(url: str, queue: QueueClient) -> None:
    with running_worker(url), sync_redis(url) as redis:
        await ask_until_answered(queue)
        redis.zadd(wire.QUEUE, {f"dead-{n}": n + 1 for n in range(500)})
        start = time.monotonic()
        await queue.ask("echo", {}, budget=3.0, ack_timeout=3.0)
        seconds = time.monotonic() - start
        await asyncio.sleep(1.2)
        assert redis.zcard(wire.QUEUE) == 0
    assert seconds < SLACK_S


async def test_a_lost_wake_up_is_recovered(url: str, queue: QueueClient) -> None:
    with running_worker(url) as worker, sync_redis(url) as redis:
        await ask_until_answered(queue)
        worker.send_signal(signal.SIGSTOP)
        await asyncio.sleep(0.7)  # the worker's blocking read has ended by now, so the call stays in the list
        asked = asyncio.create_task(queue.ask("echo", {}, budget=5.0, ack_timeout=4.0))
        await asyncio.sleep(0.2)
        redis.delete(wire.WAKE)
        worker.send_signal(signal.SIGCONT)
        assert (await asked).body["payload"] == {}


async def test_a_stopping_worker_finishes_its_jobs(url: str, queue: QueueClient, tmp_path: Path) -> None:
    with running_worker(url) as worker:
        asked = await running_job(queue, tmp_path / "trace", 1.0)
        worker.send_signal(signal.SIGTERM)
        assert (await asked).body["slept"] == 1.0
        out, err = await asyncio.to_thread(worker.communicate, timeout=10)
        assert worker.returncode == 0
        assert out.endswith("bye\n")
        assert "Traceback" not in err


async def test_a_stopping_worker_accepts_no_jobs_and_cancels_long_ones(url: str, queue: QueueClient) -> None:
    with running_worker(url) as worker:
        long = asyncio.create_task(fault_of(queue, "sleep", {"seconds": 30}, budget=6.0, ack_timeout=5.0))
        await asyncio.sleep(0.5)
        worker.send_signal(signal.SIGINT)
        await asyncio.sleep(1.0)
        reason, _ = await fault_of(queue, "echo", {}, budget=3.0)
        out, _ = await asyncio.to_thread(worker.communicate, timeout=10)
        assert worker.returncode == 0
        assert out.endswith("bye\n")
        assert (await long)[0] is Reason.DEADLINE
    assert reason in (Reason.NO_ACK, Reason.NO_WORKER)


async def test_worker_logs_contain_no_job_texts(url: str, queue: QueueClient) -> None:
    with running_worker(url) as worker:
        await queue.ask("echo", {"text": "private words"}, budget=5.0, ack_timeout=5.0)
        await fault_of(queue, "crash", {"text": "private words"}, budget=5.0, ack_timeout=5.0)
        worker.send_signal(signal.SIGTERM)
        out, err = await asyncio.to_thread(worker.communicate, timeout=10)
    assert "job_crashed" in out + err
    assert "private" not in out + err
    assert "secret" not in out + err


async def test_a_malformed_address_is_a_fault() -> None:
    reason, _ = await fault_of(QueueClient("http://somewhere"), "echo", {}, budget=1.0)
    assert reason is Reason.QUEUE_UNAVAILABLE


async def test_an_invalid_answer_is_reported(url: str, queue: QueueClient) -> None:
    with sync_redis(url) as redis:
        redis.set(wire.ALIVE, 1, px=5000)

        async def answer_nonsense() -> None:
            while not (job_ids := redis.lrange(wire.WAKE, 0, -1)):
                await asyncio.sleep(0.005)
            key = wire.REPLY_PREFIX + job_ids[0].decode()
            redis.rpush(key, wire.ACK, b'{"ok":[]}')
            redis.pexpire(key, 1000)

        helper = asyncio.create_task(answer_nonsense())
        reason, _ = await fault_of(queue, "echo", {}, budget=3.0)
        await helper
        redis.flushdb()
    assert reason is Reason.BAD_REPLY


async def test_a_wrong_password_is_a_fault_at_once(url: str) -> None:
    queue = QueueClient(url.replace("://", "://nobody:wrong@"))
    reason, seconds = await fault_of(queue, "echo", {}, budget=3.0)
    await queue.aclose()
    assert reason is Reason.QUEUE_UNAVAILABLE
    assert seconds < wire.ENQUEUE_TIMEOUT + SLACK_S


def test_one_client_serves_several_loops_in_turn(url: str) -> None:
    queue = QueueClient(url)

    async def once() -> object:
        reply = await queue.ask("echo", {"a": os.getpid()}, budget=5.0, ack_timeout=5.0)
        await queue.aclose()
        return reply.body["payload"]

    with running_worker(url):
        assert [asyncio.run(once()) for _ in range(2)] == [{"a": os.getpid()}] * 2
