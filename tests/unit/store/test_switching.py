"""The write barrier, and replacing handlers while requests run."""

import asyncio

import pytest

from worker.domain.deadline import Deadline
from worker.domain.operation import Handlers, JsonObject, Operation, by_name
from worker.store.switching import OperationSwitch, WriteBarrier


async def soon(event: asyncio.Event) -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return event.is_set()


async def test_the_barrier_waits_for_writers_and_then_makes_writers_wait() -> None:
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


async def test_the_barrier_opens_again_after_a_failure() -> None:
    write_barrier, written = WriteBarrier(), False
    with pytest.raises(KeyError):
        async with write_barrier.closed():
            raise KeyError
    async with asyncio.timeout(1), write_barrier.writing():
        written = True
    assert written


READ, WRITE = Operation("read", JsonObject, JsonObject), Operation("write", JsonObject, JsonObject, writes=True)


async def test_calls_use_the_handlers_of_their_beginning_and_former_handlers_become_idle() -> None:
    release = asyncio.Event()

    def answering(name: str, slow: bool) -> Handlers:
        async def run(request: JsonObject, deadline: Deadline) -> JsonObject:
            if slow:
                await release.wait()
            return JsonObject({"from": name})

        return by_name([READ.bind(run)])

    switch = OperationSwitch(WriteBarrier(), answering("old", True))
    read = READ.handler_in(switch.handlers()).run
    running = asyncio.ensure_future(read(JsonObject({}), Deadline.after(5)))
    await asyncio.sleep(0)
    idle = switch.use(answering("new", False))
    assert await read(JsonObject({}), Deadline.after(5)) == JsonObject({"from": "new"})
    assert not idle.is_set()
    release.set()
    assert await running == JsonObject({"from": "old"})
    assert idle.is_set()
    assert switch.use({}).is_set()


async def test_only_writes_wait_for_the_barrier() -> None:
    async def run(request: JsonObject, deadline: Deadline) -> JsonObject:
        return request

    write_barrier = WriteBarrier()
    handlers = OperationSwitch(write_barrier, by_name([READ.bind(run), WRITE.bind(run)])).handlers()
    async with write_barrier.closed():
        await asyncio.wait_for(handlers["read"].run(JsonObject({}), Deadline.after(5)), 1)
        writing = asyncio.ensure_future(handlers["write"].run(JsonObject({}), Deadline.after(5)))
        await asyncio.sleep(0.01)
        assert not writing.done()
    await asyncio.wait_for(writing, 1)
