"""Calls pause after a queue hangs, but not after answers or immediate refusals."""

from typing import Any

import pytest

from hooks.contract import Reason
from hooks.queue import QueueClient, QueueFault, Reply
from hooks.queue.guarded import COSTLY, FAILURES, PAUSE, GuardedQueue


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Hanging(QueueClient):
    """Fails with `reason` after `cost` seconds of the clock, or answers without a reason."""

    def __init__(self, clock: Clock, reason: Reason | None = Reason.QUEUE_UNAVAILABLE, cost: float = 0.25) -> None:
        super().__init__("unix:///nowhere")
        self.clock, self.reason, self.cost, self.asked = clock, reason, cost, 0

    async def ask(self, *_: Any, **__: Any) -> Reply:
        self.asked += 1
        self.clock.now += self.cost
        if self.reason is not None:
            raise QueueFault(self.reason)
        return Reply({})


async def ask(guarded: GuardedQueue) -> Reason | None:
    try:
        await guarded.ask("inject", b"{}", budget=1.0)
    except QueueFault as fault:
        return fault.reason
    return None


async def test_a_hanging_queue_costs_three_calls_and_then_one_a_pause() -> None:
    clock = Clock()
    queue = Hanging(clock)
    guarded = GuardedQueue(queue, clock=clock)
    reasons = [await ask(guarded) for _ in range(10)]
    assert set(reasons) == {Reason.QUEUE_UNAVAILABLE}
    assert queue.asked == FAILURES
    clock.now += PAUSE
    await ask(guarded)
    await ask(guarded)
    assert queue.asked == FAILURES + 1


async def test_the_first_answer_after_the_pause_ends_it() -> None:
    clock = Clock()
    queue = Hanging(clock)
    guarded = GuardedQueue(queue, clock=clock)
    for _ in range(FAILURES):
        await ask(guarded)
    clock.now += PAUSE
    queue.reason = None
    assert [await ask(guarded) for _ in range(3)] == [None] * 3


@pytest.mark.parametrize(
    ("reason", "cost"),
    [
        (Reason.QUEUE_UNAVAILABLE, COSTLY / 2),
        (Reason.NO_WORKER, 1.0),
        (Reason.NO_ACK, 1.0),
        (Reason.BUSY, 1.0),
        (Reason.DEADLINE, 3.0),
        (Reason.INTERNAL, 1.0),
    ],
)
async def test_immediate_failures_and_answers_do_not_pause_calls(reason: Reason, cost: float) -> None:
    clock = Clock()
    queue = Hanging(clock, reason, cost)
    guarded = GuardedQueue(queue, clock=clock)
    assert [await ask(guarded) for _ in range(10)] == [reason] * 10
    assert queue.asked == 10
