"""Only the first calls wait for a hanging Redis."""

import asyncio
import time

from hooks import PreExecutionHook, Reason
from hooks.queue.guarded import FAILURES, PAUSE
from tests.support.queue_worker import running_worker
from tests.support.stack import NOISE_S, frozen
from tests.support.valkey import running_valkey

REQUEST = {"session_id": "s", "message": "hi"}


async def timed(hook: PreExecutionHook) -> tuple[Reason | None, float]:
    started = time.monotonic()
    result = await hook(REQUEST)
    return result.reason, time.monotonic() - started


async def test_calls_pause_while_redis_is_frozen_and_resume() -> None:
    with running_valkey() as valkey, running_worker(valkey.url):
        assert valkey.pid is not None
        async with PreExecutionHook(valkey.url) as hook:
            assert (await hook(REQUEST)).memory_context
            with frozen(valkey.pid):
                waited = [await timed(hook) for _ in range(FAILURES)]
                spared = [await timed(hook) for _ in range(20)]
            assert {reason for reason, _ in waited + spared} == {Reason.QUEUE_UNAVAILABLE}
            assert all(0.2 < seconds < 0.25 + NOISE_S for _, seconds in waited)
            assert sum(seconds for _, seconds in spared) < NOISE_S
            event = {"type": "session.cleared", "session_id": "s"}
            assert (await hook.event(event)).reason is Reason.QUEUE_UNAVAILABLE
            await asyncio.sleep(PAUSE)
            results = [await hook(REQUEST) for _ in range(5)]
            assert results[-1].memory_context
