"""What is deleted leaves the stored receipts: at once if for good, else when the deletion can no longer be undone."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import Reason
from hooks.queue import connect
from tests.support.embedders import HashingEmbedder
from tests.support.receipts import showing
from tests.support.service import as_memory, fact
from tests.support.store import ENCODER, opened
from tests.support.valkey import forget, running_valkey
from worker.adapters.local.deleted import ProcessDeletedMemories
from worker.adapters.local.receipts import FileReceipts
from worker.adapters.local.usage import FileUsage
from worker.adapters.redis.erasing import RedisErasures
from worker.adapters.redis.receipts import RedisReceipts
from worker.domain.deadline import Deadline
from worker.domain.errors import QueueError
from worker.operations.memories import MemoryOperations
from worker.operations.requests import ForgetRequest, UndoRequest
from worker.ports.state import ErasureQueue, ReceiptStore
from worker.receipts.erasing import AFTER, ReceiptErasing
from worker.store.memories import MemoryService

SECOND = timedelta(seconds=1)
DEADLINE = Deadline.after(60)
EMBEDDER = HashingEmbedder()


@dataclass
class Kept:
    """Receipts in Redis and in files, and memories that they tell of; `past` is how much time has gone by."""

    stores: tuple[ReceiptStore, ...]
    erasing: ReceiptErasing
    memories: MemoryService
    operations: MemoryOperations
    past: timedelta = timedelta()

    async def forget(self, *ids: str, permanent: bool = False) -> None:
        await self.operations.forget(ForgetRequest(tenant="default", ids=ids, permanent=permanent), DEADLINE)

    async def texts(self) -> list[set[str]]:
        """Return for each place of receipts the ids of memories whose text it still has."""
        found = [await store.read("default", "r1") for store in self.stores]
        return [{one.id for one in receipt.considered if one.text or one.cue} for receipt in found]


@asynccontextmanager
async def kept_in(folder: Path, redis: Any) -> AsyncIterator[Kept]:
    files = FileReceipts(folder / "receipts")
    stores: tuple[ReceiptStore, ...] = (files,) if redis is None else (RedisReceipts(redis, 60), files)
    queue: ErasureQueue | None = None if redis is None else RedisErasures(redis, 60)
    erasing = ReceiptErasing(stores, queue, lambda: datetime.now(UTC) + kept.past)
    async with opened("edge", folder, EMBEDDER.profile) as engine:
        memories = MemoryService(engine, ENCODER, EMBEDDER, erasing=erasing)
        await memories.put("default", [as_memory(fact(one, f"text of {one}")) for one in ("m1", "m2", "m3")])
        undo = None if redis is None else ProcessDeletedMemories()
        usage = FileUsage(folder / "usage.json")
        operations = MemoryOperations(memories, usage, lambda: datetime.now(UTC), deleted=undo)
        kept = Kept(stores, erasing, memories, operations)
        for store in stores:
            await store.write(showing(1, "m1", "m2", "m3"))
        yield kept


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_valkey() as server:
        yield server.url


@pytest.fixture
async def kept(url: str, tmp_path: Path) -> AsyncIterator[Kept]:
    redis = connect(url)
    async with kept_in(tmp_path, redis) as found:
        yield found
    await redis.aclose()
    forget(url)


async def test_texts_are_erased_when_the_deletion_can_no_longer_be_undone(kept: Kept) -> None:
    await kept.forget("m1", "m2")
    await kept.operations.undo(UndoRequest(tenant="default", ids=("m2",)), DEADLINE)
    kept.past = AFTER - SECOND
    assert not await kept.erasing.erase_due()
    assert await kept.texts() == [{"m1", "m2", "m3"}] * 2
    kept.past = AFTER + SECOND
    assert await kept.erasing.erase_due()
    assert await kept.texts() == [{"m2", "m3"}] * 2
    assert not await kept.erasing.erase_due(), "it is done once"


async def test_a_permanent_deletion_erases_at_once_and_what_was_in_progress_later(kept: Kept) -> None:
    await kept.forget("m1", permanent=True)
    assert await kept.texts() == [{"m2", "m3"}] * 2
    for store in kept.stores:
        await store.write(showing(1, "m1", "m2"))
    kept.past = AFTER + SECOND
    assert await kept.erasing.erase_due()
    assert await kept.texts() == [{"m2"}] * 2


async def test_what_cannot_be_erased_now_is_erased_later(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: Any) -> int:
        raise OSError("no space left on device")

    await kept.forget("m1")
    kept.past = AFTER + SECOND
    with monkeypatch.context() as patch:
        patch.setattr(FileReceipts, "erase", full)
        assert await kept.erasing.erase_due()
    assert await kept.texts() == [{"m2", "m3"}, {"m1", "m2", "m3"}]
    kept.past = AFTER + timedelta(minutes=6)
    assert await kept.erasing.erase_due()
    assert await kept.texts() == [{"m2", "m3"}] * 2


async def test_an_undo_that_redis_interrupts_restores_everything_when_repeated(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: Any) -> None:
        raise QueueError(Reason.QUEUE_UNAVAILABLE, "Redis does not answer")

    about = {**fact("m4", "text of m4"), "relations": [{"kind": "about", "target": "m1"}]}
    await kept.memories.put("default", [as_memory(about)])
    await kept.forget("m1")
    undo = UndoRequest(tenant="default", ids=("m1",))
    with monkeypatch.context() as patch:
        patch.setattr(RedisErasures, "cancel", unavailable)
        with pytest.raises(QueueError):
            await kept.operations.undo(undo, DEADLINE)
    await kept.operations.undo(undo, DEADLINE)
    (referring,) = await kept.memories.get("default", ["m4"])
    assert [relation.target for relation in referring.relations] == ["m1"]
    kept.past = AFTER + SECOND
    assert not await kept.erasing.erase_due()


async def test_a_command_erases_at_once(tmp_path: Path) -> None:
    async with kept_in(tmp_path, None) as kept:
        await kept.forget("m1")
        assert await kept.texts() == [{"m2", "m3"}]
