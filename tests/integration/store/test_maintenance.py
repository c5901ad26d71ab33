"""Reindexing, backups, going back and moving, on real stores that are read and written all the time."""

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.embedders import HashingEmbedder
from tests.support.served_store import ServedStore, large, open_served_store, recipe, small
from tests.support.service import fact
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge.generations import EdgeGenerations, read_generations
from worker.domain.errors import EmbedderError, MemoryRejected, NotFound, StoreDamaged, StoreError
from worker.domain.memory import EmbedderProfile, Vector
from worker.domain.operation import AnyOperation, by_name
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import FORGET, STORE_INFO, STORE_JOB_START, STORE_JOB_STATUS, UPDATE
from worker.operations.store import StoreOperations
from worker.store.copying import Progress

BARGE = "Barge {} was sold to the harbour master"


def barges(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [fact(f"m{n}", BARGE.format(n)) for n in range(start, start + count)]


@dataclass
class Readers:
    """Searches for one memory without a pause; every answer must have it."""

    answers: int = 0
    with_cosine: int = 0
    wrong: list[Any] = field(default_factory=list)


@asynccontextmanager
async def reading(kept: ServedStore, count: int = 3) -> AsyncIterator[Readers]:
    seen, stop = Readers(), asyncio.Event()

    async def read() -> None:
        while not stop.is_set():
            hits = await kept.search(BARGE.format(7))
            found = [hit for hit in hits if hit["id"] == "m7"]
            seen.answers += 1
            seen.with_cosine += bool(found and found[0]["cosine"] is not None)
            if not found:
                seen.wrong.append(hits)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(read()) for _ in range(count)]
    try:
        yield seen
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def test_a_reindex_under_reads_and_writes_loses_neither(tmp_path: Path) -> None:
    slow = large()
    slow.delay = 0.05
    async with open_served_store(tmp_path, small(), named={"large": slow}) as kept:
        await kept.put(*barges(400))
        await kept.put(fact("x", "Of another tenant"), tenant="t2")
        numbers, stop = itertools.count(1000), asyncio.Event()
        written: list[str] = []

        async def write() -> None:
            while not stop.is_set():
                number = next(numbers)
                await kept.put(fact(f"m{number}", BARGE.format(number)))
                written.append(f"m{number}")
                await kept.call(UPDATE, {"tenant": "t1", "id": "m3", "changes": {"content": f"Barge three, {number}"}})
                await kept.call(FORGET, {"tenant": "t1", "ids": [f"m{number - 500}"]})
                await asyncio.sleep(0.005)

        async with reading(kept) as seen:
            writer = asyncio.create_task(write())
            done = await kept.maintenance.reindex(kept.progress, embedder="large")
            await asyncio.sleep(0.1)
            stop.set()
            await writer
        assert seen.wrong == []
        assert seen.with_cosine == seen.answers > 20
        assert len(written) > 5
        expected = ({f"m{n}" for n in range(400)} | set(written)) - {f"m{int(key[1:]) - 500}" for key in written}
        contents = await kept.contents()
        assert set(contents) == expected
        assert contents["m3"] == f"Barge three, {written[-1][1:]}"
        assert await kept.contents("t2") == {"x": "Of another tenant"}
        assert (done["live"], done["self_found"]) == ("memories-2", 1.0)
        health = await kept.host.store().health()
        assert (health.bare, health.fault, health.points) == (0, None, len(expected) + 1)
    generations = read_generations(tmp_path)
    assert (generations.live, generations.previous, generations.draft) == ("memories-2", ("memories",), None)
    async with open_served_store(tmp_path, large()) as kept:
        assert (await kept.contents()).keys() == expected
        assert (await kept.search(BARGE.format(7)))[0]["cosine"] == pytest.approx(1.0, abs=1e-5)


async def test_changed_dimension_is_told_with_both_numbers_serves_keywords_and_deletes_nothing(tmp_path: Path) -> None:
    """Another embedder is configured, then the first one again; then the change is made for good."""
    async with open_served_store(tmp_path, small()) as kept:
        await kept.put(*barges(50))
    async with open_served_store(tmp_path, large()) as kept:
        fault = (await kept.host.store().health()).fault
        assert fault is not None
        assert "64 dimensions" in fault
        assert "128 dimensions" in fault
        assert "meeseeks store reindex" in fault
        hits = await kept.search(BARGE.format(7))
        assert (hits[0]["id"], hits[0]["cosine"]) == ("m7", None)
        await kept.put(fact("late", "Written while the vectors did not fit"))
    async with open_served_store(tmp_path, small()) as kept:
        health = await kept.host.store().health()
        assert (health.points, health.fault, health.bare) == (51, None, 1)
        assert (await kept.search(BARGE.format(7)))[0]["cosine"] == pytest.approx(1.0, abs=1e-5)
        assert (await kept.maintenance.reindex(kept.progress))["reindexed"] == 51
        assert (await kept.host.store().health()).bare == 0
        embedder = kept.host.serving.embedder
        assert isinstance(embedder, HashingEmbedder)
        assert embedder.passages == ["Written while the vectors did not fit"]
        await kept.maintenance.reindex(kept.progress, force=True)
        assert len(embedder.passages) == 1 + 51
    async with open_served_store(tmp_path, large()) as kept, reading(kept) as seen:
        assert (await kept.maintenance.reindex(kept.progress))["reindexed"] == 51
        assert (await kept.search("Written while the vectors did not fit"))[0]["cosine"] is not None
        assert seen.wrong == []


async def test_same_size_of_another_model_is_not_the_same(tmp_path: Path) -> None:
    async with open_served_store(tmp_path, HashingEmbedder(64, "one")) as kept:
        await kept.put(*barges(20))
    async with open_served_store(tmp_path, HashingEmbedder(64, "two")) as kept:
        assert (await kept.host.store().health()).dense_usable is False
        assert (await kept.maintenance.reindex(kept.progress))["reindexed"] == 20
        assert (await kept.host.store().health()).dense_usable is True


async def test_changed_keyword_recipe_is_a_reason_to_reindex(tmp_path: Path) -> None:
    async with open_served_store(tmp_path, small()) as kept:
        await kept.put(*barges(20))
    german = Bm25Encoder("german")
    async with open_served_store(tmp_path, small(), sparse=german) as kept:
        assert "keyword index" in str((await kept.host.store().health()).fault)
        await kept.maintenance.reindex(kept.progress)
        assert (await kept.host.store().health()).fault is None
        embedded = await kept.maintenance.reindex(kept.progress)
        assert embedded["reindexed"] == 0
        assert "--force" in embedded["reason"]


async def test_a_reindex_that_breaks_off_goes_on_where_it_was(tmp_path: Path) -> None:
    broken, sound = large(), large()
    async with open_served_store(tmp_path, small(), named={"broken": broken, "sound": sound}) as kept:
        await kept.put(*barges(300))
        running = asyncio.create_task(kept.maintenance.reindex(kept.progress, embedder="broken"))
        broken.delay = 0.05
        while kept.progress.done < 128:
            await asyncio.sleep(0.005)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await kept.generations.generations()).draft == "memories-2"
        assert (await kept.search(BARGE.format(7)))[0]["id"] == "m7"
        await kept.put(fact("m5", "Barge five was changed meanwhile"))
        await kept.call(FORGET, {"tenant": "t1", "ids": ["m6"]})
        done = await kept.maintenance.reindex(kept.progress, embedder="sound")
        assert (done["reindexed"], done["live"]) == (299, "memories-2")
        assert len(sound.passages) <= 299 - 128 + 1
        contents = await kept.contents()
        assert contents["m5"] == "Barge five was changed meanwhile"
        assert "m6" not in contents


async def test_a_reindex_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.store.copying.PAUSE", 0.001)
    down = HashingEmbedder(128, "down", fault=EmbedderError("out of order"))
    async with open_served_store(tmp_path, small(), named={"down": down}) as kept:
        await kept.put(*barges(10))
        with pytest.raises(EmbedderError):
            await kept.maintenance.reindex(kept.progress, embedder="down")
        assert (await kept.search(BARGE.format(7)))[0]["cosine"] is not None
        assert (await kept.put(fact("new", "Still writable")))["created"] == 1
        assert (await kept.generations.generations()).live == "memories"


class Shuffled(HashingEmbedder):
    """Vectors that say nothing: each text is embedded as if it were another one each time."""

    @property
    def profile(self) -> EmbedderProfile:
        return EmbedderProfile("shuffled", "1", 64, candidate_threshold=0.25, confident=0.3, duplicate=0.92)

    async def embed_query(self, text: str) -> Any:
        return await super().embed_query(f"query {len(self.queries)} only")


async def test_a_generation_that_finds_nothing_does_not_become_the_live_one(tmp_path: Path) -> None:
    async with open_served_store(tmp_path, small(), named={"shuffled": Shuffled()}) as kept:
        await kept.put(*barges(60))
        with pytest.raises(StoreError, match="found by their own text"):
            await kept.maintenance.reindex(kept.progress, embedder="shuffled")
        assert (await kept.generations.generations()).live == "memories"
        await kept.maintenance.reindex(kept.progress, embedder="shuffled", force=True)
        assert (await kept.generations.generations()).live == "memories-2"


async def test_going_back_keeps_what_was_written_since(tmp_path: Path) -> None:
    old, new = small(), large()
    async with open_served_store(tmp_path, old, named={"new": new}) as kept:
        with pytest.raises(NotFound):
            await kept.maintenance.rollback(kept.progress)
        await kept.put(*barges(30))
        await kept.maintenance.reindex(kept.progress, embedder="new")
        await kept.put(fact("since", "Written since the change"))
        await kept.call(FORGET, {"tenant": "t1", "ids": ["m1"]})
        with pytest.raises(StoreError, match="64 dimensions"):
            await kept.maintenance.rollback(kept.progress, embedder="new")
        async with reading(kept) as seen:
            assert (await kept.maintenance.rollback(kept.progress))["live"] == "memories"
        assert seen.wrong == []
        contents = await kept.contents()
        assert "since" in contents
        assert "m1" not in contents
        assert len(contents) == 30
        assert (await kept.search(BARGE.format(7)))[0]["cosine"] == pytest.approx(1.0, abs=1e-5)
        assert (await kept.maintenance.prune(kept.progress))["deleted"] == ["memories-2"]
    assert [path.name for path in sorted(tmp_path.glob("memories*"))] == ["memories", "memories.json"]


class HeldEmbedder(HashingEmbedder):
    """Embeds this one query only once it is let go."""

    held = "Where is the tug?"

    def __init__(self) -> None:
        super().__init__(64, "small")
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()

    async def embed_query(self, text: str) -> Vector:
        if text == self.held:
            self.begun.set()
            await self.let_go.wait()
        return await super().embed_query(text)


async def test_going_back_waits_for_those_who_still_read_what_was_replaced(tmp_path: Path) -> None:
    old, new = HeldEmbedder(), large()
    async with open_served_store(tmp_path, old, named={"new": new}) as kept:
        await kept.put(*barges(30))
        reader = asyncio.create_task(kept.search(old.held))
        await old.begun.wait()
        await kept.maintenance.reindex(kept.progress, embedder="new")
        back = asyncio.create_task(kept.maintenance.rollback(kept.progress))
        assert not (await asyncio.wait([back], timeout=0.3))[0]
        old.let_go.set()
        assert len(await reader) == 10
        assert (await back)["live"] == "memories"
        assert (await kept.maintenance.prune(kept.progress))["deleted"] == ["memories-2"]


@pytest.mark.parametrize("name", ["copy", "copy.tar.gz"])
async def test_a_backup_made_under_writes_is_whole_and_restores_with_its_vectors(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    async with open_served_store(tmp_path / "a", small()) as kept:
        await kept.put(*barges(200))
        await kept.put(fact("x", "Zürich 🙂 経費", scope={"user": "u"}), tenant="t2")

        async def write() -> None:
            for number in range(1000, 1020):
                await kept.put(fact(f"m{number}", BARGE.format(number)))
                await kept.call(FORGET, {"tenant": "t1", "ids": [f"m{number - 900}"]})

        writing = asyncio.create_task(write())
        async with reading(kept) as seen:
            done = await kept.maintenance.backup(kept.progress, target)
        assert seen.wrong == []
        await writing
        with pytest.raises(StoreError, match="already exists"):
            await kept.maintenance.backup(kept.progress, target)
    assert [path.name for path in tmp_path.glob("copy*")] == [name]
    fresh = small()
    async with open_served_store(tmp_path / "b", fresh) as kept:
        restored = await kept.maintenance.restore(kept.progress, target)
        assert restored["restored"] == done["memories"]
        assert len(fresh.passages) <= 40, "vectors are taken over, only late writes are embedded"
        assert await kept.contents("t2") == {"x": "Zürich 🙂 経費"}
        contents = await kept.contents()
        assert {key: contents.get(key) for key in ("m0", "m99", "m199")} == {
            f"m{n}": BARGE.format(n) for n in (0, 99, 199)
        }
        assert (await kept.search(BARGE.format(150)))[0]["cosine"] == pytest.approx(1.0, abs=1e-5)


async def test_a_restore_needs_force_over_memories_and_can_be_taken_back(tmp_path: Path) -> None:
    async with open_served_store(tmp_path / "a", small()) as kept:
        await kept.put(*barges(20))
        await kept.maintenance.backup(kept.progress, tmp_path / "copy")
    embedder = large()
    async with open_served_store(tmp_path / "b", embedder) as kept:
        await kept.put(fact("mine", "What was here before"))
        with pytest.raises(StoreError, match="--force"):
            await kept.maintenance.restore(kept.progress, tmp_path / "copy")
        assert await kept.contents() == {"mine": "What was here before"}
        await kept.maintenance.restore(kept.progress, tmp_path / "copy", force=True)
        assert len(await kept.contents()) == 20
        assert len(embedder.passages) == 21
        assert (await kept.generations.generations()).previous == ("memories",)


async def test_a_restore_keeps_what_is_written_meanwhile(tmp_path: Path) -> None:
    async with open_served_store(tmp_path / "a", small()) as kept:
        await kept.put(*barges(300))
        await kept.maintenance.backup(kept.progress, tmp_path / "copy")
        await kept.put(fact("gone", "Only here before the restore"))
        restoring = asyncio.create_task(kept.maintenance.restore(kept.progress, tmp_path / "copy", force=True))
        while kept.progress.phase != "restoring":
            await asyncio.sleep(0)
        await kept.put(fact("new", "Written during the restore"), fact("m5", "Changed during the restore"))
        assert (await kept.call(FORGET, {"tenant": "t1", "ids": ["m6"]}))["forgotten"] == 1
        assert not restoring.done()
        assert (await restoring)["late_writes"] == 3
        contents = await kept.contents()
        assert contents["new"] == "Written during the restore"
        assert contents["m5"] == "Changed during the restore"
        assert set(contents) == {f"m{n}" for n in range(300)} - {"m6"} | {"new"}


async def test_a_backup_deletes_nothing_that_it_did_not_make(tmp_path: Path) -> None:
    precious = tmp_path / "copy.part" / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("mine", encoding="utf-8")
    async with open_served_store(tmp_path / "a", small()) as kept:
        await kept.put(*barges(3))
        await kept.maintenance.backup(kept.progress, tmp_path / "copy")
        (tmp_path / "taken").mkdir()
        (tmp_path / "taken" / "precious.txt").write_text("mine", encoding="utf-8")
        with pytest.raises(StoreError, match="already exists"):
            await kept.maintenance.backup(kept.progress, tmp_path / "taken")
    assert precious.read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "taken" / "precious.txt").exists()


async def test_only_the_owner_may_read_stores_and_backups(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        async with open_served_store(tmp_path / "home" / "data", small()) as kept:
            await kept.put(*barges(3))
            await kept.maintenance.reindex(kept.progress, force=True)
            for name in ("copy", "copy.tar.gz"):
                await kept.maintenance.backup(kept.progress, tmp_path / "home" / name)
    finally:
        os.umask(former)
    top = [tmp_path / "home", *(tmp_path / "home").iterdir(), *(tmp_path / "home" / "data").iterdir()]
    top += (tmp_path / "home" / "copy").iterdir()
    readable = {path: oct(path.stat().st_mode & 0o777) for path in top if path.stat().st_mode & 0o077}
    assert readable == {}
    assert len(top) > 8


async def test_a_damaged_backup_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    async with open_served_store(tmp_path / "a", small()) as kept:
        await kept.put(*barges(20))
        await kept.maintenance.backup(kept.progress, tmp_path / "copy")
        file = tmp_path / "copy" / "memories.jsonl"
        data = file.read_bytes()
        for broken in (data.replace(b"Barge 3", b"Barge 4"), data[:-40], b""):
            file.write_bytes(broken)
            with pytest.raises(StoreError, match="damaged"):
                await kept.maintenance.restore(kept.progress, tmp_path / "copy", force=True)
        (tmp_path / "copy" / "manifest.json").write_text(json.dumps({"format": 9}), encoding="utf-8")
        for wrong in ("copy", "nothing.tar.gz", "a/memories.json"):
            with pytest.raises(StoreError, match=r"not a (readable )?backup"):
                await kept.maintenance.restore(kept.progress, tmp_path / wrong, force=True)
        assert len(await kept.contents()) == 20


async def test_a_pointer_that_cannot_be_read_is_said_and_not_replaced_by_an_empty_store(tmp_path: Path) -> None:
    async with open_served_store(tmp_path, small(), named={"large": large()}) as kept:
        await kept.put(*barges(5))
        await kept.maintenance.reindex(kept.progress, embedder="large")
    (tmp_path / "memories.json").write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match=r"memories\.json"):
        await EdgeGenerations(tmp_path).open_live(recipe(small()))


async def test_a_folder_that_lost_its_memories_is_damaged_not_empty(tmp_path: Path) -> None:
    async with open_served_store(tmp_path, small()) as kept:
        await kept.put(*barges(5))
    (tmp_path / "memories" / "points").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreDamaged):
        await EdgeGenerations(tmp_path).open_live(recipe(small()))


async def test_a_job_says_how_far_it_is(tmp_path: Path) -> None:
    slow = large()
    slow.delay = 0.02
    async with open_served_store(tmp_path, small(), named={"large": slow}) as kept:
        await kept.put(*barges(300))
        progress = Progress()
        running = asyncio.create_task(kept.maintenance.reindex(progress, embedder="large"))
        seen = set()
        while not running.done():
            seen.add((progress.phase, progress.done, progress.total))
            await asyncio.sleep(0.005)
        await running
        assert {("copying", 64, 300), ("copying", 128, 300)} <= seen


async def test_one_job_at_a_time_and_its_end_is_told(tmp_path: Path) -> None:
    slow = large()
    slow.delay = 0.05
    async with open_served_store(
        tmp_path, small(), named={"large": slow, "down": HashingEmbedder(fault=KeyError())}
    ) as kept:
        await kept.put(*barges(100))
        jobs = StoreOperations(kept.maintenance)

        async def ask(operation: AnyOperation, **payload: Any) -> dict[str, Any]:
            return await LocalOperationClient(by_name(jobs.handlers())).call(operation, payload)

        async def ended() -> dict[str, Any]:
            while (status := await ask(STORE_JOB_STATUS))["state"] == "running":
                await asyncio.sleep(0.01)
            return status

        assert await ask(STORE_JOB_STATUS) == {"state": "none"}
        with pytest.raises(MemoryRejected, match="needs a path"):
            await ask(STORE_JOB_START, kind="backup")
        started = await ask(STORE_JOB_START, kind="reindex", embedder="large")
        with pytest.raises(StoreError, match="reindex is running"):
            await ask(STORE_JOB_START, kind="prune")
        status = await ended()
        assert (status["id"], status["state"], status["result"]["reindexed"]) == (started["id"], "done", 100)
        await ask(STORE_JOB_START, kind="restore", path=str(tmp_path / "nowhere"))
        failed = await ended()
        assert (failed["state"], "--force" in failed["error"]) == ("failed", True)
        await ask(STORE_JOB_START, kind="reindex", embedder="down")
        assert ((crashed := await ended())["state"], crashed["error"]) == ("failed", "KeyError")
        await ask(STORE_JOB_START, kind="reindex", embedder="large", force=True)
        await jobs.aclose()
        assert (await ask(STORE_INFO))["job"]["state"] == "failed"
        assert len(await kept.contents()) == 100
