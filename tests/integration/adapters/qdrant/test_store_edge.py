"""The embedded store: its lock, damaged files and killed processes."""

import asyncio
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import qdrant_edge as edge
import structlog

from tests.support.forked import Forked
from tests.support.paths import ROOT
from tests.support.store import CREATED, ENCODER, direction, memory, near, profile, query, stored
from worker.adapters.qdrant.edge.indexes import KEYS, LARGE
from worker.adapters.qdrant.edge.opening import load
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.domain.errors import StoreDamaged, StoreError, StoreLocked
from worker.domain.kinds import SortKey
from worker.domain.memory import EmbedderProfile, MemoryFilter, MemoryType, Replacement, StoredMemory, Visibility

QUESTION = direction("question")
TINY = profile()


async def reopen(
    folder: Path,
    made_for: EmbedderProfile | None = TINY,
    bm25_hash: str = ENCODER.config_hash,
    every: float = 3600.0,
) -> EdgeStore:
    return await EdgeStore.open(folder, profile=made_for, bm25_hash=bm25_hash, flush_every=every)


async def filled(folder: Path, count: int, made_for: EmbedderProfile | None = TINY) -> None:
    store = await reopen(folder, made_for)
    size = 16 if made_for is None else made_for.dimension
    items = [memory(f"m{index}", f"bell {index}") for index in range(count)]
    await store.tenant("north").put([stored(item, direction(item.content, size)) for item in items])
    await store.aclose()


@contextmanager
def writer(folder: Path, task: str) -> Iterator[tuple[Forked, Path]]:
    """Yield a process that has opened the store, and the file that it writes to."""
    out, log = folder.with_name("out"), folder.with_name("log")
    out.touch()
    process = Forked([str(folder), task], ROOT, os.environ, out=out, log=log, program="tests.support.store_writer")
    try:
        wait_for(out, "open\n", process, log)
        yield process, out
    finally:
        process.kill()
        process.wait()


def wait_for(out: Path, start: str, process: Forked, log: Path) -> None:
    while not out.read_text().startswith(start):
        assert process.poll() is None, log.read_text()
        time.sleep(0.005)


async def test_everything_is_there_after_closing_and_opening_again(tmp_path: Path) -> None:
    await filled(tmp_path, 300)
    store = await reopen(tmp_path)
    health = await store.health()
    assert (health.points, health.dense_usable, health.fault, health.notes) == (300, True, None, ())
    tenant = store.tenant("north")
    assert len(await tenant.search(query("bell", QUESTION, limit=20))) >= 20
    assert await tenant.delete([f"m{index}" for index in range(100)]) == 100
    await store.aclose()
    store = await reopen(tmp_path)
    assert (await store.health()).points == 200
    assert (await store.health()).notes == ()
    assert await store.tenant("north").get(["m0"]) == []
    await store.aclose()


SMAPS = Path("/proc/self/smaps")


def resident_mb(folder: Path) -> float:
    """Return how much of the files under `folder` this process has in memory."""
    kilobytes, counted = 0, False
    for line in SMAPS.read_text(encoding="utf-8").splitlines():
        if "-" in line.split(maxsplit=1)[0]:  # the addresses of the next mapping
            counted = str(folder) in line
        elif counted and line.startswith("Rss:"):
            kilobytes += int(line.split()[1])
    return kilobytes / 1024


@pytest.mark.skipif(not SMAPS.is_file(), reason="needs Linux")
async def test_room_for_more_memories_is_not_held_in_memory(tmp_path: Path) -> None:
    folder = tmp_path / "a store"
    await filled(folder, 200)
    store = await reopen(folder)
    assert resident_mb(folder) < 5
    tenant = store.tenant("north")
    hits = await tenant.search(query("bell 7", direction("bell 7")))
    assert hits[0].memory.id == "m7"
    await tenant.put([stored(memory("m200", "bell 200"), direction("bell 200"))])
    await store.aclose()
    again = await reopen(folder)
    assert await again.tenant("north").count() == 201
    await again.aclose()


async def test_a_closed_store_says_so_and_may_be_closed_twice(tmp_path: Path) -> None:
    store = await reopen(tmp_path)
    tenant = store.tenant("north")
    await store.aclose()
    await store.aclose()
    with pytest.raises(StoreError, match="closed"):
        await tenant.count()
    with pytest.raises(StoreError, match="closed"):
        await store.flush()


async def test_a_second_process_is_told_whose_the_store_is(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with writer(folder, "hold") as (owner, _):
        with pytest.raises(StoreLocked, match=rf"process {owner.pid}\b.*stop that process"):
            await reopen(folder)
        owner.kill()
        owner.wait()
        store = await reopen(folder)
        await store.aclose()


async def test_a_second_store_in_the_same_process_is_refused(tmp_path: Path) -> None:
    store = await reopen(tmp_path)
    with pytest.raises(StoreLocked, match="this process already"):
        await reopen(tmp_path)
    await store.aclose()
    await (await reopen(tmp_path)).aclose()


@pytest.mark.parametrize("seconds", [0.05, 0.4])
async def test_acknowledged_writes_survive_the_kill_of_the_process(tmp_path: Path, seconds: float) -> None:
    folder = tmp_path / "store"
    with writer(folder, "import") as (process, out):
        while out.read_text().count("\n") < 2:
            time.sleep(0.005)
        time.sleep(seconds)
        process.kill()
        process.wait()
        lines = out.read_text().splitlines(keepends=True)[1:]
    acknowledged = [key for line in lines if line.endswith("\n") for key in line.split()]
    store = await reopen(folder)
    tenant = store.tenant("north")
    assert {item.id for item in await tenant.get(acknowledged)} == set(acknowledged)
    assert await tenant.count() >= len(acknowledged) >= 20
    hits = await tenant.search(query(dense=direction(f"bell {acknowledged[0]}"), limit=3))
    assert hits[0].memory.id == acknowledged[0]
    assert hits[0].cosine == pytest.approx(1.0, abs=1e-5)
    assert (await store.health()).notes == ()
    await store.aclose()


async def test_a_kill_after_deletions_raises_no_false_alarm(tmp_path: Path) -> None:
    await filled(tmp_path, 100)
    copy = tmp_path / "killed"
    store = await reopen(tmp_path / "live")
    tenant = store.tenant("north")
    await tenant.put([stored(memory(f"m{index}")) for index in range(100)])
    await store.flush()
    await tenant.delete([f"m{index}" for index in range(60)])
    shutil.copytree(tmp_path / "live", copy)
    await store.aclose()
    killed = await reopen(copy)
    assert await killed.tenant("north").count() == 40
    assert (await killed.health()).notes == ()
    await killed.aclose()


async def test_dirty_stores_are_flushed_in_the_background(tmp_path: Path) -> None:
    store = await reopen(tmp_path, every=0.05)
    await store.tenant("north").put([stored(memory("m1"))])
    for _ in range(200):
        if json.loads((tmp_path / "store.json").read_text())["points"] == 1:
            break
        await asyncio.sleep(0.05)
    assert json.loads((tmp_path / "store.json").read_text())["points"] == 1
    await store.aclose()


async def test_another_dimension_turns_dense_search_off_and_back_on(tmp_path: Path) -> None:
    small, big = profile("small", 384), profile("big", 768)
    await filled(tmp_path, 50, small)
    question = direction("question", 384)
    store = await reopen(tmp_path, small)
    await store.tenant("north").put([stored(memory("m1"), near(question, 0.8))])
    await store.aclose()

    store = await reopen(tmp_path, big)
    health = await store.health()
    assert (health.points, health.dense_usable) == (50, False)
    assert health.fault is not None
    assert all(word in health.fault for word in ("small (384", "big (768", "meeseeks store reindex"))
    tenant = store.tenant("north")
    (hit,) = await tenant.search(query("Which beam carries the bell on larch?", direction("q", 768), limit=1))
    assert (hit.memory.id, hit.cosine) == ("m1", None)
    with pytest.raises(StoreError, match="nothing to search by"):
        await tenant.search(query(dense=direction("q", 768)))
    await tenant.put([stored(memory("new", "lantern oil"), direction("new", 768))])
    assert [hit.memory.id for hit in await tenant.search(query("lantern"))] == ["new"]
    await store.aclose()

    store = await reopen(tmp_path, small)
    health = await store.health()
    assert (health.points, health.dense_usable, health.fault) == (51, True, None)
    assert "1 memories have no dense vector" in " ".join(health.notes)
    hits = await store.tenant("north").search(query("lantern", question, limit=1))
    assert [(hit.memory.id, hit.cosine) for hit in hits] == [("m1", pytest.approx(0.8, abs=1e-5)), ("new", None)]
    await store.aclose()


async def test_another_embedder_of_the_same_size_never_meets_the_old_vectors(tmp_path: Path) -> None:
    await filled(tmp_path, 3)
    store = await reopen(tmp_path, profile("other"))
    health = await store.health()
    assert not health.dense_usable
    assert health.fault is not None
    assert "tiny" in health.fault
    assert "other" in health.fault
    tenant = store.tenant("north")
    await tenant.put([stored(memory("new", "lantern"), QUESTION)])
    assert all(hit.cosine is None and hit.vector is None for hit in await tenant.search(query("bell", QUESTION)))
    await store.aclose()
    store = await reopen(tmp_path)
    assert "new" not in {hit.memory.id for hit in await store.tenant("north").search(query(dense=QUESTION))}
    await store.aclose()


async def test_another_keyword_recipe_is_reported_and_both_searches_work(tmp_path: Path) -> None:
    await filled(tmp_path, 3)
    store = await reopen(tmp_path, bm25_hash="another")
    health = await store.health()
    assert health.dense_usable
    assert health.fault is not None
    assert ENCODER.config_hash in health.fault
    assert "another" in health.fault
    hits = await store.tenant("north").search(query("bell", QUESTION))
    assert len(hits) == 3
    assert all(hit.cosine is not None and hit.keyword is not None for hit in hits)
    await store.aclose()


async def test_a_store_without_an_embedder_serves_words_and_gets_dense_vectors_later(tmp_path: Path) -> None:
    await filled(tmp_path, 3, None)
    store = await reopen(tmp_path, None)
    health = await store.health()
    assert (health.dense_usable, health.fault) == (False, None)
    assert len(await store.tenant("north").search(query("bell", QUESTION))) == 3
    await store.aclose()

    for _ in range(2):
        store = await reopen(tmp_path)
        assert (await store.health()).dense_usable
        await store.tenant("north").put([stored(memory("dense", "lantern"), near(QUESTION, 0.9))])
        hits = await store.tenant("north").search(query("bell", QUESTION))
        assert hits[0].memory.id == "dense"
        assert hits[0].cosine == pytest.approx(0.9, abs=1e-5)
        assert "3 memories have no dense vector" in " ".join((await store.health()).notes)
        await store.aclose()
    store = await reopen(tmp_path, profile("other"))
    assert not (await store.health()).dense_usable
    await store.aclose()


async def test_missing_points_are_reported_at_every_opening(tmp_path: Path) -> None:
    await filled(tmp_path, 50)
    side = tmp_path / "store.json"
    side.write_text(json.dumps({**json.loads(side.read_text()), "points": 60}))
    for _ in range(2):
        with structlog.testing.capture_logs() as logs:
            store = await reopen(tmp_path)
        assert "10 of 60 memories are missing" in " ".join((await store.health()).notes)
        assert [(log["event"], log["log_level"]) for log in logs] == [("store_points_missing", "error")]
        await store.tenant("north").put([stored(memory("m1"))])
        await store.aclose()


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"points": "x"}'])
async def test_without_its_record_a_store_serves_words_and_says_why(tmp_path: Path, content: str | None) -> None:
    await filled(tmp_path, 3)
    side = tmp_path / "store.json"
    if content is None:
        side.unlink()
    else:
        side.write_text(content)
    for _ in range(2):
        store = await reopen(tmp_path)
        health = await store.health()
        assert not health.dense_usable
        assert "unknown embedder" in (health.fault or "")
        assert len(await store.tenant("north").search(query("bell", QUESTION))) == 3
        await store.tenant("north").put([stored(memory("m0"))])
        await store.aclose()


EVERY_KEY = memory(
    "all",
    type="event",
    occurred_at=CREATED,
    valid_until=CREATED + timedelta(days=900),
    superseded_by="other",
    entities=("Mia Moss",),
    scope={"user": "mia", "agent": "a1", "project": "p1"},
    channel="c1",
    pinned=True,
)


def keys_on_record(folder: Path) -> list[str]:
    return list(json.loads((folder / "store.json").read_text())["keys"])


def disk_used(folder: Path) -> int:
    return sum(512 * path.stat().st_blocks for path in folder.rglob("*"))


async def test_a_key_is_indexed_when_the_first_memory_sets_it(tmp_path: Path) -> None:
    store = await reopen(tmp_path)
    assert keys_on_record(tmp_path) == []
    assert disk_used(tmp_path) < 2_000_000
    tenant = store.tenant("north")
    await tenant.put([stored(memory("m1"))])
    assert keys_on_record(tmp_path) == ["created_ts", "importance", "tenant", "times"]
    [state] = (await tenant.states(["m1"])).values()
    assert not await tenant.replace([Replacement(memory("m1", scope={"user": "mia"}), state.revision)])
    assert keys_on_record(tmp_path) == ["created_ts", "importance", "tenant", "times", "user"]
    mine, others = (MemoryFilter(Visibility(users=users)) for users in (("mia",), ("ben",)))
    for _ in range(2):
        assert [await tenant.count(where) for where in (mine, others, MemoryFilter(user="mia"))] == [1, 0, 1]
        await store.aclose()
        store = await reopen(tmp_path)
        tenant = store.tenant("north")
    await tenant.put([stored(EVERY_KEY)])
    assert frozenset(keys_on_record(tmp_path)) == KEYS
    await store.aclose()


async def test_each_write_to_a_large_store_indexes_one_more_key(tmp_path: Path) -> None:
    """Indexing one that is set for the first time would stop a store the longer, the larger it is."""
    store = await reopen(tmp_path)
    tenant = store.tenant("north")
    await tenant.put([stored(memory(f"m{n}")) for n in range(LARGE)])
    keys = keys_on_record(tmp_path)
    while len(keys) < len(KEYS):
        await tenant.put([stored(memory("m1"))])
        assert len(keys_on_record(tmp_path)) == len(keys) + 1
        keys = keys_on_record(tmp_path)
    await store.aclose()


FILTERS = [
    MemoryFilter(),
    *(MemoryFilter(Visibility(users=("mia",), channels=told, valid_at=CREATED)) for told in (None, (), ("c1",))),
    MemoryFilter(Visibility(agents=("a1",), projects=("p1",), superseded=True, importance=0.4)),
    *(MemoryFilter(**{owner: name}) for owner in ("user", "agent", "project") for name in ("mia", "x")),
    MemoryFilter(types=(MemoryType.FACT,)),
    MemoryFilter(types=(MemoryType.EVENT, MemoryType.PREFERENCE)),
    MemoryFilter(entities=("Mia Moss",)),
    MemoryFilter(names=("mia",)),
    MemoryFilter(channels=("c1", "c2")),
    MemoryFilter(pointing_at=("other",)),
    MemoryFilter(pinned=True),
    MemoryFilter(since=CREATED, until=CREATED),
    MemoryFilter(created_until=CREATED - timedelta(days=1)),
    MemoryFilter(importance=0.9),
]


async def test_what_is_found_does_not_depend_on_the_keys_that_others_set(tmp_path: Path) -> None:
    """Without them, conditions are left out of filters, and must have been met by all or by none."""

    async def found(folder: Path, *others: StoredMemory) -> list[Any]:
        store = await reopen(folder)
        await store.tenant("south").put(list(others))
        tenant, answers = store.tenant("north"), list[Any]()
        for round_ in range(2):
            if round_:
                await tenant.put([stored(memory("m1")), stored(memory("m2", "Mia rings the bell", entities=("Mia",)))])
            for where in FILTERS:
                hits = await tenant.search(query("bell", QUESTION, where))
                recent = await tenant.ordered(where, SortKey.RECENT, limit=5)
                page = await tenant.scroll(where, limit=10)
                ids = sorted(one.id for one in page.memories)
                answers.append((sorted(hit.memory.id for hit in hits), len(recent), ids, await tenant.count(where)))
        await store.aclose()
        return answers

    alone = await found(tmp_path / "alone")
    assert alone == await found(tmp_path / "beside", stored(EVERY_KEY))
    assert {count for *_, count in alone} == {0, 1, 2}


@pytest.mark.parametrize("lost", ["in the engine", "in the record"])
async def test_a_lost_index_shows_nobody_what_is_private(tmp_path: Path, lost: str) -> None:
    store = await reopen(tmp_path)
    await store.tenant("north").put([stored(memory("m1", scope={"user": "mia"}))])
    await store.aclose()
    if lost == "in the engine":
        points = edge.EdgeShard.load(str(tmp_path / "points"))
        points.update(edge.UpdateOperation.delete_field_index("user"))
        points.close()
    else:
        record = {**json.loads((tmp_path / "store.json").read_text()), "keys": []}
        (tmp_path / "store.json").write_text(json.dumps(record))
    store = await reopen(tmp_path)
    assert not await store.tenant("north").search(query("bell", QUESTION, MemoryFilter(Visibility(users=("ben",)))))
    assert await store.tenant("north").search(query("bell", QUESTION, MemoryFilter(Visibility(users=("mia",)))))
    await store.aclose()


async def test_every_key_of_a_store_of_an_earlier_version_is_indexed(tmp_path: Path) -> None:
    await filled(tmp_path, 1)
    record = json.loads((tmp_path / "store.json").read_text())
    del record["keys"]
    (tmp_path / "store.json").write_text(json.dumps(record))
    store = await reopen(tmp_path)
    await store.aclose()
    points = edge.EdgeShard.load(str(tmp_path / "points"))
    assert points.info().payload_schema.keys() == KEYS
    points.close()


async def test_a_lost_folder_of_points_is_no_empty_store(tmp_path: Path) -> None:
    await filled(tmp_path, 3)
    shutil.rmtree(tmp_path / "points")
    with pytest.raises(StoreDamaged, match=r"with 3 memories is missing.*restore a copy"):
        await reopen(tmp_path)


async def test_a_crash_while_the_store_was_made_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    await filled(tmp_path / "whole", 0)
    (tmp_path / "half").mkdir()
    shutil.copytree(tmp_path / "whole" / "points", tmp_path / "half" / "points.new")
    (tmp_path / "half" / "points.new" / "edge_config.json").write_text("{")
    await filled(tmp_path / "half", 2)
    store = await reopen(tmp_path / "half")
    assert (await store.health()).points == 2
    await store.aclose()


DAMAGED = (
    "edge_config.json",
    "segment.json",
    "version.info",
    "mutable_id_tracker.mappings",
    "config.json",
    "flags_a.dat",
)


@pytest.mark.parametrize("harm", ["garble", "delete"])
async def test_damaged_files_are_never_passed_over_in_silence(tmp_path: Path, harm: str) -> None:
    """Damage one file of each kind: opening fails, or missing points are reported."""
    whole = tmp_path / "whole"
    await filled(whole, 230)
    outcomes: dict[str, str] = {}
    for name in DAMAGED:
        copy = tmp_path / name
        subprocess.run(["cp", "-r", "--sparse=always", whole, copy], check=True)
        hurt(next(iter(sorted((copy / "points").rglob(name)))), harm)
        outcomes[name] = await opening(copy)
        shutil.rmtree(copy)
    assert not {"silent loss", "without advice"} & set(outcomes.values()), outcomes
    assert "damaged" in outcomes.values(), outcomes
    assert outcomes["mutable_id_tracker.mappings"] in ("damaged", "reported"), outcomes


def hurt(path: Path, harm: str) -> None:
    if harm == "delete":
        path.unlink()
        return
    with path.open("r+b") as stream:
        stream.write(os.urandom(min(4096, path.stat().st_size)))


async def opening(folder: Path) -> str:
    try:
        store = await reopen(folder)
    except StoreDamaged as error:
        return "damaged" if "restore a copy" in str(error) else "without advice"
    try:
        health = await store.health()
        tenant = store.tenant("north")
        listed = len((await tenant.scroll(MemoryFilter(), limit=1000)).memories)
        await tenant.search(query("bell", QUESTION))
        if listed < 230 and health.points == 230:
            return "unreadable memories"
        reported = "memories are missing" in " ".join(health.notes)
        return "whole" if health.points == 230 else "reported" if reported else "silent loss"
    except StoreError:
        return "fails loudly"
    finally:
        await close_quietly(store)


async def close_quietly(store: EdgeStore) -> None:
    with suppress(StoreError):
        await store.aclose()


@cache
def thousands() -> list[StoredMemory]:
    return [stored(memory(f"m{index}", f"bell {index}"), direction(str(index), 384)) for index in range(3000)]


async def test_the_event_loop_goes_on_while_thousands_are_put(tmp_path: Path) -> None:
    store = await reopen(tmp_path, profile("minilm", 384))
    items = thousands()[:2000]
    lags: list[float] = []

    async def heart() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            lags.append(time.perf_counter() - before - 0.005)

    beating = asyncio.create_task(heart())
    await store.tenant("north").put(items)
    beating.cancel()
    lags.sort()
    assert len(lags) > 20
    assert lags[len(lags) // 2] < 0.05, f"median {lags[len(lags) // 2]:.3f} s, worst {lags[-1]:.3f} s"
    await store.aclose()


async def test_a_search_waits_for_one_batch_and_not_for_a_whole_import(tmp_path: Path) -> None:
    store = await reopen(tmp_path, profile("minilm", 384))
    tenant = store.tenant("north")
    items = thousands()
    importing = asyncio.create_task(tenant.put(items))
    await asyncio.sleep(0)
    searched = 0
    while not importing.done():
        await tenant.search(query("bell", direction("q", 384)))
        searched += 1
    await importing
    assert searched >= 10
    assert await tenant.count() == 3000
    await store.aclose()


async def test_a_cancelled_search_does_no_harm(tmp_path: Path) -> None:
    store = await reopen(tmp_path)
    tenant = store.tenant("north")
    put = asyncio.create_task(tenant.put([stored(memory(f"m{index}")) for index in range(500)]))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await tenant.search(query("bell", QUESTION))
    await put
    assert len(await tenant.search(query("bell", QUESTION))) >= 20
    await store.aclose()


async def test_a_folder_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be reached"):
        await reopen(tmp_path / "file" / "store")


async def test_a_failed_opening_leaves_the_store_unlocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it fails with, and also if the caller gave up before it was open."""
    folder = tmp_path / "store"
    name = "worker.adapters.qdrant.edge.shard.load"
    with monkeypatch.context() as broken:
        broken.setattr(name, lambda *_: {}["unforeseen"])
        with pytest.raises(KeyError):
            await EdgeStore.open(folder, profile=profile(), bm25_hash=ENCODER.config_hash)
    started, go_on = threading.Event(), threading.Event()

    def slowly(*given: Any) -> Any:
        started.set()
        go_on.wait(10)
        return load(*given)

    with monkeypatch.context() as slow:
        slow.setattr(name, slowly)
        opening = asyncio.create_task(EdgeStore.open(folder, profile=profile(), bm25_hash=ENCODER.config_hash))
        await asyncio.to_thread(started.wait, 10)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        go_on.set()
    for _ in range(100):
        with suppress(StoreLocked):
            store = await EdgeStore.open(folder, profile=profile(), bm25_hash=ENCODER.config_hash)
            break
        await asyncio.sleep(0.05)
    await store.aclose()
