"""An arq worker that starts jobs within milliseconds and survives outages of Redis.

arq polls the queue and re-reads every running job each time. Here a blocking read of the wake list takes a job at
once: a script claims it and acknowledges it to the caller, which says that a worker is alive and has seen it, and arq's
`run_job` runs it. Jobs beyond `max_jobs` wait for their turn in the worker, where those that cannot be answered in
their time are refused. Twice a second another script marks the worker as alive, removes expired jobs, and finds jobs
without a wake-up, as plain `ArqRedis.enqueue_job` adds them. All times are from Redis' clock.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import structlog
from arq.constants import retry_key_prefix
from arq.typing import WorkerCoroutine
from arq.worker import Function, Worker, func
from redis.exceptions import RedisError

from hooks.contract import MAX_DEADLINE_MS, Reason
from hooks.protocol import wire
from hooks.queue import RedisAddressError, connect, dump_json, explain, load_json
from worker.domain.errors import QueueError
from worker.domain.operation import AnyHandler, Handlers
from worker.injection.capacity import AT_ONCE, MOST_WAITING, Capacity
from worker.operations.job import error_answer, job_function
from worker.ports.tracing import NO_TRACER, Tracer

UPKEEP_S = 0.5
ALIVE_MS = 2_000
RECOVERY_S = 0.1
DRAIN_S = 4.0
"""Seconds for running jobs to finish after `stop`."""

JOB_TIMEOUT_S = MAX_DEADLINE_MS // 1000 + 5
"""arq's job timeout, longer than any job's own deadline."""

SWEEP_LIMIT = 1_000

_KEYS_OF_JOB = (wire.IN_PROGRESS_PREFIX, wire.JOB_PREFIX, retry_key_prefix)

_log = structlog.get_logger()

Lifecycle = Callable[[dict[Any, Any]], Awaitable[None]]

CLAIM = """
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local ids, started, more = {unpack(ARGV, 9)}, {}, 0
if tonumber(ARGV[4]) > 0 then
  for _, id in ipairs(redis.call('LRANGE', KEYS[2], 0, ARGV[4] - 1)) do
    local age = ms - (redis.call('ZSCORE', KEYS[1], id) or 0)
    if age >= 0 and age < tonumber(ARGV[8]) then break end
    more = more + 1
  end
end
if more > 0 then
  for _, id in ipairs(redis.call('LPOP', KEYS[2], more)) do ids[#ids + 1] = id end
end
for _, id in ipairs(ids) do
  local score, claim, reply = redis.call('ZSCORE', KEYS[1], id), ARGV[5] .. id, ARGV[7] .. id
  if score and redis.call('EXISTS', claim) == 0 then
    if redis.call('EXISTS', ARGV[6] .. id) == 0 then redis.call('ZREM', KEYS[1], id)
    else
      redis.call('SET', claim, '1', 'PX', ARGV[1])
      redis.call('RPUSH', reply, ARGV[2])
      redis.call('PEXPIRE', reply, ARGV[3])
      started[#started + 1] = id
      started[#started + 1] = math.max(0, ms - score)
    end
  end
end
return started
"""
"""KEYS: queue, wake. ARGV: lifetime of the claim in ms, acknowledgement, lifetime of the reply in ms, number of jobs to
take from wake, prefixes of claims, jobs and replies, least age in ms of jobs to take, ids of jobs that were taken
already.

Return the ids and ages in ms of the jobs to run: not those that are claimed, withdrawn, expired or unknown. A time to
come counts as long ago: the clock has changed, as it does when a replica takes over.
"""

MOST_TAKEN = 2 * MOST_WAITING
"""Jobs that wait in the worker: a flood, which fills half of it, must not shut others out."""

MOST_AT_ONCE = 8
"""Jobs that one script takes: few, so that workers share a burst. A crowded worker takes as many as it has: all of
a large burst have to be acknowledged in time.
"""

CROWDED_S = 0.01
"""Seconds that a worker without a free place leaves each new job to others."""

UNCLAIMED_S = 0.05
"""Age in seconds of a job that nobody has claimed. A younger one may be on its way to a worker that is free."""

UPKEEP = """
redis.call('SET', KEYS[2], '1', 'PX', ARGV[1])
local now, waiting, free = redis.call('TIME'), {}, tonumber(ARGV[3])
local due = now[1] * 1000 + math.floor(now[2] / 1000) - ARGV[6]
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', due, 'LIMIT', 0, ARGV[2])) do
  if redis.call('EXISTS', ARGV[4] .. id) == 0 then
    if redis.call('EXISTS', ARGV[5] .. id) == 0 then redis.call('ZREM', KEYS[1], id)
    elseif #waiting < free then waiting[#waiting + 1] = id end
  end
end
return waiting
"""
"""KEYS: queue, alive. ARGV: lifetime of alive in ms, maximum ids to check, free slots, prefixes of claims and jobs,
least age in ms of jobs to take.

Return the ids of jobs that nobody has claimed, at most one for each free slot.
"""


class MeeseeksWorker(Worker):
    """Run operations by name from the queue at `redis_url`, at most `max_jobs` at a time; more wait for their turn.

    `on_startup(ctx)` completes before callers can see the worker, `on_serving()` is called once they can, and
    `on_shutdown(ctx)` always runs after the last job. `ctx["redis"]` is the worker's client. On SIGTERM or SIGINT,
    running jobs get `DRAIN_S` seconds to finish; a second signal ends them at once. The worker waits while Redis is
    down. Raise `QueueError` if `redis_url` is invalid.
    """

    def __init__(
        self,
        handlers: Handlers,
        redis_url: str,
        *,
        max_jobs: int = AT_ONCE,
        capacity: Capacity | None = None,
        on_startup: Lifecycle | None = None,
        on_serving: Callable[[], None] | None = None,
        on_shutdown: Lifecycle | None = None,
        handle_signals: bool = True,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._tracer = tracer
        try:
            pool = connect(redis_url)
        except RedisAddressError as error:
            raise QueueError(Reason.QUEUE_UNAVAILABLE, str(error)) from error
        _ensure_event_loop()
        # arq logs job arguments, which contain messages, at info level
        logging.getLogger("arq.worker").setLevel(logging.WARNING)
        self._capacity = capacity or Capacity(max_jobs)
        super().__init__(
            [self._function(handler) for handler in handlers.values()],
            queue_name=wire.QUEUE,
            redis_pool=pool,
            max_jobs=max_jobs + MOST_TAKEN,
            max_tries=1,
            retry_jobs=False,
            keep_result=0,
            handle_signals=False,
            job_serializer=dump_json,
            job_deserializer=load_job,
        )
        self._redis: Any = pool
        self._at_once = max_jobs
        self._on_startup = on_startup
        self._on_serving = on_serving
        self._on_shutdown = on_shutdown
        self._signals = (signal.SIGTERM, signal.SIGINT) if handle_signals else ()
        self._enqueued: dict[str, float] = {}
        self._removed: set[str] = set()
        self._upkeep_at = 0.0
        self._lost_at: float | None = None
        self._drain_until: float | None = None

    def run(self) -> None:
        """Serve until a signal arrives, in a program without a running event loop."""
        try:
            self.loop.run_until_complete(self.serve())
        finally:
            self.loop.close()

    async def serve(self) -> None:
        """Serve until a signal arrives or `stop` is called, on the loop the worker was created on."""
        for number in self._signals:
            self.loop.add_signal_handler(number, self.stop)
        self.main_task = self.loop.create_task(self.main())
        try:
            await self.main_task
        except asyncio.CancelledError:
            if self.allow_pick_jobs:
                raise
        finally:
            for number in self._signals:
                self.loop.remove_signal_handler(number)
            await self.close()

    def stop(self) -> None:
        """Start no more jobs, and end once the running ones finish; if called again, end at once."""
        first, self.allow_pick_jobs = self.allow_pick_jobs, False
        self._drain_until = self.loop.time() + (DRAIN_S if first else 0.0)
        if self.main_task is not None:
            # wait for a blocking read: cancelling it could lose the job it is about to return
            self.loop.call_at(self._drain_until, self.main_task.cancel)

    async def main(self) -> None:
        self.ctx["redis"] = self.pool
        if self._on_startup is not None:
            await self._on_startup(self.ctx)
        while self.allow_pick_jobs:
            try:
                await self._take_turn()
            except (RedisError, OSError) as error:
                self._note_loss(error)
                await asyncio.sleep(RECOVERY_S)
            else:
                self._note_return()

    async def close(self) -> None:
        """Wait for running jobs, run `on_shutdown` and close the connection."""
        if self._pool is None:
            return
        await self._drain()
        try:
            if self._on_shutdown is not None:
                await self._on_shutdown(self.ctx)
        finally:
            with suppress(RedisError, OSError):
                await self._redis.aclose()
            self._pool = None

    async def finish_failed_job(self, job_id: str, result_data: bytes | None) -> None:
        """Send the caller an error for a job that arq cannot run."""
        await self.send(job_id, error_answer(Reason.BAD_REQUEST, "unknown operation, or the request is not JSON"))
        await super().finish_failed_job(job_id, result_data)

    def enqueued_at(self, job_id: str) -> float:
        return self._enqueued[job_id]

    async def send(self, job_id: str, answer: bytes) -> None:
        """Send the answer and remove the job, in one round trip."""
        key = wire.REPLY_PREFIX + job_id
        try:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.rpush(key, answer)
                pipe.pexpire(key, wire.REPLY_TTL_MS)
                pipe.delete(*(prefix + job_id for prefix in _KEYS_OF_JOB))
                pipe.zrem(wire.QUEUE, job_id)
                await pipe.execute()
        except (RedisError, OSError) as error:
            _log.warning("answer_lost", error=type(error).__name__)
        else:
            self._removed.add(job_id)

    async def finish_job(self, job_id: str, *arguments: Any) -> None:
        """Remove a job that ended without an answer."""
        if job_id not in self._removed:
            await super().finish_job(job_id, *arguments)

    def _function(self, handler: AnyHandler) -> Function:
        run = cast("WorkerCoroutine", job_function(handler, self, self._capacity, self._tracer))
        return func(run, name=handler.operation.name, timeout=JOB_TIMEOUT_S)

    async def _take_turn(self) -> None:
        """Do the upkeep if due, else take jobs if there is room for them, else wait for room."""
        left = self._upkeep_at - self.loop.time()
        room = self.max_jobs - len(self.tasks)
        if left <= 0:
            await self._keep_up()
        elif room <= 0:
            await self._wait_for_room(left)
        elif len(self.tasks) >= self._at_once:
            await self._wait_for_room(min(left, CROWDED_S))
            if self.allow_pick_jobs:
                await self._take(min(room, max(MOST_AT_ONCE, len(self.tasks))), aged_s=CROWDED_S)
        else:
            await self._take_next(left, self._at_once - len(self.tasks))

    async def _wait_for_room(self, seconds: float) -> None:
        await asyncio.wait(tuple(self.tasks.values()), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def _take_next(self, seconds: float, free: int) -> None:
        """Wait for a job, and take those behind it along that can run at once; others may be free for the rest."""
        popped = await self._redis.blpop([wire.WAKE], timeout=max(0.01, seconds))
        if popped is None:
            return
        if self.allow_pick_jobs:
            await self._take(min(free, MOST_AT_ONCE) - 1, popped[1])
        else:
            await self._redis.lpush(wire.WAKE, popped[1])
            await self._redis.pexpire(wire.WAKE, wire.WAKE_TTL_MS)

    async def _keep_up(self) -> None:
        free = max(0, self.max_jobs - len(self.tasks))
        prefixes = (wire.IN_PROGRESS_PREFIX, wire.JOB_PREFIX)
        arguments = (ALIVE_MS, SWEEP_LIMIT, free, *prefixes, int(UNCLAIMED_S * 1000))
        waiting = await self._redis.eval(UPKEEP, 2, wire.QUEUE, wire.ALIVE, *arguments)
        self._upkeep_at = self.loop.time() + UPKEEP_S
        self._say_once_that_it_serves()
        if waiting:
            await self._take(0, *waiting)

    def _say_once_that_it_serves(self) -> None:
        if self._on_serving is not None:
            say, self._on_serving = self._on_serving, None
            say()

    async def _take(self, more: int, *ids: bytes, aged_s: float = 0.0) -> None:
        """Start the jobs `ids` and at most `more` others that have waited for `aged_s`, unless they must not run."""
        claim_ms = int(self.in_progress_timeout_s * 1000)
        prefixes = (wire.IN_PROGRESS_PREFIX, wire.JOB_PREFIX, wire.REPLY_PREFIX)
        arguments = (claim_ms, wire.ACK, wire.REPLY_TTL_MS, more, *prefixes, int(aged_s * 1000), *ids)
        found = await self._redis.eval(CLAIM, 2, wire.QUEUE, wire.WAKE, *arguments)
        for raw_id, age_ms in zip(found[::2], found[1::2], strict=True):
            self._start(raw_id.decode("utf-8", "replace"), age_ms)

    def _start(self, job_id: str, age_ms: int) -> None:
        self._enqueued[job_id] = time.monotonic() - age_ms / 1000
        task = self.tasks[job_id] = self.loop.create_task(self.run_job(job_id, 0))
        task.add_done_callback(partial(self._finished, job_id))

    def _finished(self, job_id: str, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(job_id, None)
        self._enqueued.pop(job_id, None)
        self._removed.discard(job_id)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("job_bookkeeping_failed", error=type(error).__name__)

    async def _drain(self) -> None:
        running = tuple(self.tasks.values())
        if not running:
            return
        left = max(0.0, (self._drain_until or 0.0) - self.loop.time())
        _, late = await asyncio.wait(running, timeout=left)
        for task in late:
            task.cancel()
        if late:
            _log.warning("jobs_cut_off", jobs=len(late))
            await asyncio.wait(late, timeout=1.0)

    def _note_loss(self, error: Exception) -> None:
        self._upkeep_at = 0.0
        if self._lost_at is None:
            self._lost_at = self.loop.time()
            _log.warning("redis_lost", error=type(error).__name__, reason=explain(error))

    def _note_return(self) -> None:
        if self._lost_at is not None:
            _log.warning("redis_back", after_s=round(self.loop.time() - self._lost_at, 1))
            self._lost_at = None


def load_job(raw: bytes) -> dict[str, Any]:
    """Read a job; raise `ValueError` if it is no job, so that arq fails it instead of leaving it in the queue."""
    job = load_json(raw)
    kinds = {"f": str, "a": list | tuple, "k": dict, "t": int | None, "et": int}
    if not isinstance(job, dict) or not all(isinstance(job.get(key), kind) for key, kind in kinds.items()):
        raise ValueError("not a job in the layout of arq")
    return job


def _ensure_event_loop() -> None:
    """Set an event loop if there is none, because arq takes the current one on creation."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.set_event_loop(asyncio.new_event_loop())
