"""Work that lasts goes on after any error and says it."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from worker.domain.errors import QueueError
from worker.domain.receipt import Receipt
from worker.operations.background_cues import Activity, BackgroundCueParts, BackgroundCues, Pace
from worker.operations.lasting import LastingWork
from worker.operations.learning import CueLearning


async def test_it_starts_again_after_an_error_and_ends_when_it_is_closed() -> None:
    begun: list[int] = []

    async def work() -> None:
        begun.append(len(begun))
        await asyncio.sleep(0)
        if len(begun) < 3:
            raise KeyError("a secret word")
        await asyncio.Event().wait()

    with capture_logs() as logs:
        lasting = LastingWork("checks", work)
        async with asyncio.timeout(5):
            while len(begun) < 3:
                await asyncio.sleep(0.001)
        await lasting.aclose()
    assert [(entry["event"], entry["work"], entry["error"]) for entry in logs] == [
        ("lasting_work_crashed", "checks", "KeyError")
    ] * 2
    await asyncio.sleep(0.01)
    assert len(begun) == 3


async def test_it_ends_although_its_work_loses_a_cancellation() -> None:
    lost: list[int] = []

    async def work() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:  # as `asyncio.wait_for` of Python 3.11 does
                if lost:
                    raise
                lost.append(1)

    lasting = LastingWork("loses", work)
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await lasting.aclose()
    assert lost


class Client:
    """Fails in a way that nobody foresaw, and then works."""

    def __init__(self) -> None:
        self.called = 0

    async def call(self, *_: Any, **__: Any) -> dict[str, Any]:
        self.called += 1
        if self.called == 1:
            raise ValueError("unforeseen")
        return {"added": ["m1"]}


async def test_learning_goes_on_after_an_unforeseen_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.operations.learning.cues_to_learn", lambda *_: {"memories": []})
    client, learning, receipt = Client(), CueLearning(pause=0.0), Receipt.model_construct()
    learning.start(client)  # type: ignore[arg-type]
    with capture_logs() as logs:
        for _ in range(2):
            learning(receipt, (), None)  # type: ignore[arg-type]
        async with asyncio.timeout(5):
            await learning.drain()
    assert client.called == 2
    assert "lasting_work_crashed" in [entry["event"] for entry in logs]
    await learning.aclose()


class Log:
    """Nobody may lead, which fails in a way that nobody foresaw the first time."""

    def __init__(self) -> None:
        self.asked = 0

    async def lead(self, *_: Any) -> bool:
        self.asked += 1
        if self.asked == 1:
            raise ValueError("unforeseen")
        raise QueueError("queue_unavailable", "Redis is away")  # type: ignore[arg-type]


async def test_writing_in_the_background_goes_on_after_an_unforeseen_error() -> None:
    log, none, pace = Log(), lambda: None, Pace(first=0.0, every=0.0)
    known: Any = (log, Activity(), lambda: 1, none, pace)
    writing = BackgroundCues(BackgroundCueParts(none, none, none, *known))  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        while log.asked < 3:
            await asyncio.sleep(0.001)
    await writing.aclose()
    assert log.asked >= 3
