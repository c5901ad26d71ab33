"""Requests that wait for room."""

import asyncio

import pytest

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import OperationError
from worker.domain.fair_line import Caller
from worker.injection.capacity import MOST_WAITING, Capacity

FLOOD, QUIET = Caller("acme", "flood"), Caller("acme", "quiet")


class Clock:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Requests:
    """Requests that hold their places until they are told to end."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.started: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, caller: Caller = FLOOD, seconds: float = 60.0) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._hold(name, caller, seconds))
        await asyncio.sleep(0)

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks.pop(name)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def cancel(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.wait([task])

    async def reason(self, name: str) -> Reason:
        with pytest.raises(OperationError) as caught:
            await self._tasks.pop(name)
        return caught.value.reason

    async def _hold(self, name: str, caller: Caller, seconds: float) -> None:
        async with self.capacity.turn(caller, Deadline.after(seconds)):
            self.started.append(name)
            await self._ends[name].wait()


async def taught(clock: Clock, seconds: float, **limits: int) -> Requests:
    """Requests of a capacity that has seen many that took `seconds` each."""
    requests = Requests(Capacity(clock=clock, **limits))
    for _ in range(100):
        await requests.ask("before")
        clock.now += seconds
        await requests.end("before")
    requests.started.clear()
    return requests


async def test_more_requests_than_fit_wait_and_agents_take_turns() -> None:
    requests = Requests(Capacity(at_once=1))
    for name in ("first", "second", "third"):
        await requests.ask(name)
    await requests.ask("quiet", QUIET)
    assert requests.started == ["first"]
    for name in ("first", "second", "quiet", "third"):
        await requests.end(name)
    assert requests.started == ["first", "second", "quiet", "third"]


async def test_a_request_that_waits_for_a_model_lets_others_compute() -> None:
    capacity = Capacity(at_once=2, computing=1)
    requests = Requests(capacity)
    async with capacity.turn(FLOOD, Deadline.after(60)) as place:
        await requests.ask("second")
        assert requests.started == []
        with capacity.paused(place):
            await asyncio.sleep(0)
            assert requests.started == ["second"]
            await requests.ask("third")
        await requests.end("second")
        assert requests.started == ["second"]
    await asyncio.sleep(0)
    await requests.end("third")
    assert requests.started == ["second", "third"]


async def test_a_request_without_time_to_wait_is_refused_at_once_and_one_with_time_waits() -> None:
    requests = await taught(Clock(), 0.5, computing=1)
    await requests.ask("running")
    await requests.ask("hurried", seconds=0.8)
    assert await requests.reason("hurried") is Reason.BUSY
    await requests.ask("patient", seconds=5.0)
    await requests.end("running")
    assert requests.started == ["running", "patient"]
    await requests.end("patient")


async def test_behind_a_flood_only_the_flood_is_refused() -> None:
    requests = await taught(Clock(), 0.5, computing=1)
    for number in range(10):
        await requests.ask(f"flood {number}", seconds=3.9)
    assert {await requests.reason(f"flood {number}") for number in (8, 9)} == {Reason.BUSY}
    await requests.ask("quiet", QUIET, seconds=5.0)
    await requests.end("flood 0")
    await requests.end("flood 1")
    assert requests.started == ["flood 0", "flood 1", "quiet"]
    for name in ("quiet", *(f"flood {number}" for number in range(2, 8))):
        await requests.end(name)


async def test_forty_callers_wait_although_the_last_may_be_late() -> None:
    """Whoever is refused may ask again at once, which costs the time that the others need."""
    requests = await taught(Clock(), 1.25, computing=2)
    names = [str(number) for number in range(40)]
    for name in names:
        await requests.ask(name, seconds=24.0)
    assert requests.capacity.waiting == 38
    for name in names:
        await requests.end(name)
    assert requests.started == names


async def test_behind_long_requests_a_new_one_is_expected_to_wait_as_long_as_they_run_already() -> None:
    clock = Clock()
    requests = Requests(Capacity(at_once=1, clock=clock))
    await requests.ask("long")
    clock.now += 3.0
    await requests.ask("new", seconds=2.0)
    assert await requests.reason("new") is Reason.BUSY
    await requests.end("long")


async def test_no_more_than_a_limit_wait() -> None:
    requests = Requests(Capacity(at_once=1))
    for number in range(MOST_WAITING + 2):
        await requests.ask(str(number))
    assert await requests.reason(str(MOST_WAITING + 1)) is Reason.BUSY
    for number in range(1, MOST_WAITING + 1):
        await requests.cancel(str(number))
    assert requests.capacity.waiting == 0
    await requests.end("0")


@pytest.mark.parametrize("quiet", [QUIET, Caller("other", "flood")])
async def test_behind_a_flood_that_fills_the_line_others_still_wait(quiet: Caller) -> None:
    requests = Requests(Capacity(at_once=1))
    for number in range(MOST_WAITING + 1):
        await requests.ask(str(number))
    await requests.ask("quiet", quiet)
    await requests.end("0")
    await requests.end("1")
    assert requests.started == ["0", "1", "quiet"]
    for number in range(2, MOST_WAITING + 1):
        await requests.cancel(str(number))
    await requests.end("quiet")


async def test_a_wait_ends_with_the_deadline() -> None:
    requests = Requests(Capacity(at_once=1))
    await requests.ask("running")
    await requests.ask("late", seconds=0.02)
    assert await requests.reason("late") is Reason.DEADLINE
    assert requests.capacity.waiting == 0
    await requests.end("running")


@pytest.mark.parametrize("admitted_first", [True, False])
async def test_a_place_of_a_cancelled_request_is_not_lost(admitted_first: bool) -> None:
    requests = Requests(Capacity(at_once=1))
    for name in ("running", "cancelled", "next"):
        await requests.ask(name)
    if admitted_first:
        requests._ends["running"].set()
        await requests._tasks["running"]
    await requests.cancel("cancelled")
    if not admitted_first:
        await requests.end("running")
    await asyncio.sleep(0)
    await requests.end("next")
    assert requests.started[-1] == "next"
    assert "cancelled" not in requests.started or admitted_first
