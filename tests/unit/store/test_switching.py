"""Writers held back, and operations exchanged under way."""

import asyncio
from typing import Any

import pytest

from worker.domain.deadline import Deadline
from worker.domain.operation import OperationAnswer
from worker.store.switching import OperationSwitch, WriteBarrier


async def soon(event: asyncio.Event) -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return event.is_set()


async def test_the_gate_waits_for_writers_and_then_makes_writers_wait() -> None:
    write_barrier, wrote, closed, release = WriteBarrier(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with write_barrier.writing():
            await release.wait()

    async def close() -> None:
        async with write_barrier.closed():
            closed.set()
            await asyncio.sleep(0.01)
            assert not wrote.is_set()

    async def second() -> None:
        async with write_barrier.writing():
            wrote.set()

    writer = asyncio.create_task(first())
    await asyncio.sleep(0)
    closing = asyncio.create_task(close())
    await asyncio.sleep(0)
    late = asyncio.create_task(second())
    assert not await soon(closed)
    release.set()
    await asyncio.gather(writer, closing, late)
    assert closed.is_set()
    assert wrote.is_set()


async def test_the_gate_opens_again_when_what_it_was_closed_for_fails() -> None:
    write_barrier, written = WriteBarrier(), False
    with pytest.raises(KeyError):
        async with write_barrier.closed():
            raise KeyError
    async with asyncio.timeout(1), write_barrier.writing():
        written = True
    assert written


async def test_calls_go_to_the_table_of_their_beginning_and_the_former_one_says_when_it_is_idle() -> None:
    release = asyncio.Event()

    def answering(name: str, slow: bool) -> Any:
        async def operation(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
            if slow:
                await release.wait()
            return OperationAnswer({"from": name})

        return operation

    switch = OperationSwitch(WriteBarrier(), {"write"}, {"read": answering("old", True)})
    read = switch.table()["read"]
    running = asyncio.create_task(read({}, Deadline.after(5)))
    await asyncio.sleep(0)
    idle = switch.use({"read": answering("new", False)})
    assert (await read({}, Deadline.after(5))).body == {"from": "new"}
    assert not idle.is_set()
    release.set()
    assert (await running).body == {"from": "old"}
    assert idle.is_set()
    assert switch.use({}).is_set()


async def test_only_writes_wait_at_the_gate() -> None:
    async def operation(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        return OperationAnswer({})

    write_barrier = WriteBarrier()
    table = OperationSwitch(write_barrier, {"write"}, {"read": operation, "write": operation}).table()
    async with write_barrier.closed():
        await asyncio.wait_for(table["read"]({}, Deadline.after(5)), 1)
        writing = asyncio.create_task(table["write"]({}, Deadline.after(5)))
        await asyncio.sleep(0.01)
        assert not writing.done()
    await asyncio.wait_for(writing, 1)
