"""Let as many requests run at once as the machine can work on; the others wait, each tenant and agent in turn."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import OperationError
from worker.domain.fair_line import Caller, FairLine

AT_ONCE = 20
MOST_WAITING = 200
"""Requests that a new one may have to wait for; behind more, it is refused as busy."""

LEAST_TIME = 0.9
"""Share of its expected wait that a request must have left to wait at all: it is a mean, and some take less.

With 1.1, a slow machine refused some of 40 callers who wait 3 seconds; they asked again at once, and the processor time
that this took made the others late.
"""

HOPELESS = "too many requests are waiting to answer this one in its time"

WEIGHT = 0.1
"""Weight of the latest request in the mean duration."""


@dataclass(slots=True, eq=False)
class Place:
    """The place of a running request."""

    started: float
    computed: float = 0.0
    """Seconds of computing before the latest pause."""

    resumed: float = 0.0


class Capacity:
    """Room for `at_once` requests, of which `computing` may compute at the same time.

    A request that waits for a chat model gives its share of the processor to the next one. A request that is expected
    to wait for longer than its deadline allows is refused at once.
    """

    def __init__(
        self, at_once: int = AT_ONCE, computing: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._at_once = at_once
        self._most_computing = at_once if computing is None else computing
        self._clock = clock
        self._line: FairLine[asyncio.Future[Place]] = FairLine()
        self._running: dict[Place, None] = {}
        self._computing = 0
        self._mean_computing = 0.0
        self._mean_running = 0.0

    @property
    def waiting(self) -> int:
        return len(self._line)

    @asynccontextmanager
    async def turn(self, caller: Caller, deadline: Deadline) -> AsyncIterator[Place]:
        """Wait for a place and hold it. Raise `OperationError` with `BUSY` if that would take too long."""
        if self._line or not self._has_room():
            self._refuse_if_hopeless(caller, deadline)
            place = await self._wait(caller, deadline)
            self._refuse_if_late(place, deadline)
        else:
            place = self._enter()
        try:
            yield place
        finally:
            self._note(place)
            self._leave(place)

    @contextmanager
    def paused(self, place: Place) -> Iterator[None]:
        """Let others compute while the request in `place` waits for another service."""
        place.computed += self._clock() - place.resumed
        self._computing -= 1
        self._admit()
        try:
            yield
        finally:
            self._computing += 1
            place.resumed = self._clock()

    def expected_wait(self, caller: Caller) -> float:
        """Return the seconds after which a new request of `caller` is expected to be answered."""
        turns = self._line.ahead(caller) + 1
        computing = self._mean_computing * (1 + turns / self._most_computing)
        if len(self._running) < self._at_once:
            return computing
        youngest = self._clock() - next(reversed(self._running)).started
        return max(computing, max(self._mean_running, youngest) * turns / self._at_once)

    def _refuse_if_hopeless(self, caller: Caller, deadline: Deadline) -> None:
        if self._line.ahead(caller) >= MOST_WAITING:
            raise OperationError(Reason.BUSY, "too many requests are waiting; try again later")
        if LEAST_TIME * self.expected_wait(caller) > deadline.remaining():
            raise OperationError(Reason.BUSY, HOPELESS)

    async def _wait(self, caller: Caller, deadline: Deadline) -> Place:
        admitted: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        self._line.push(caller, admitted)
        place = None
        try:
            async with asyncio.timeout(deadline.remaining()):
                place = await admitted
        except TimeoutError as error:
            raise OperationError(Reason.DEADLINE, "no capacity before the deadline") from error
        finally:
            if place is None:
                self._withdraw(caller, admitted)
        return place

    def _withdraw(self, caller: Caller, admitted: "asyncio.Future[Place]") -> None:
        """Leave the line; a place that was given at the same moment goes to the next one."""
        if admitted.done() and not admitted.cancelled():
            self._leave(admitted.result())
        else:
            self._line.remove(caller, admitted)

    def _has_room(self) -> bool:
        return self._computing < self._most_computing and len(self._running) < self._at_once

    def _enter(self) -> Place:
        now = self._clock()
        place = Place(started=now, resumed=now)
        self._running[place] = None
        self._computing += 1
        return place

    def _leave(self, place: Place) -> None:
        del self._running[place]
        self._computing -= 1
        self._admit()

    def _admit(self) -> None:
        while self._line and self._has_room():
            waiting = self._line.pop()
            if not waiting.done():
                waiting.set_result(self._enter())

    def _refuse_if_late(self, place: Place, deadline: Deadline) -> None:
        """Refuse a request that waited for so long that there is no time to answer it."""
        if deadline.remaining() < self._mean_computing:
            self._leave(place)
            raise OperationError(Reason.BUSY, HOPELESS)

    def _note(self, place: Place) -> None:
        """Count the durations of a request that ends."""
        now = self._clock()
        self._mean_computing = _mean(self._mean_computing, place.computed + now - place.resumed)
        self._mean_running = _mean(self._mean_running, now - place.started)


def _mean(before: float, latest: float) -> float:
    return before + WEIGHT * (latest - before)
