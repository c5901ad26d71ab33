"""Reindexing on a server that other processes read from and write to, and moving there and back."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_servers import QdrantServer, engines, qdrant_server
from tests.support.served_store import ServedStore, large, open_served_store, recipe, small
from tests.support.service import fact
from tests.support.store import stored
from worker.adapters.qdrant.edge.generations import EdgeGenerations
from worker.adapters.qdrant.server.generations import ServerGenerations
from worker.adapters.qdrant.server.wire import create_alias
from worker.domain.errors import StoreError
from worker.domain.memory import Memory
from worker.operations.registry import FORGET
from worker.ports.store import Recipe, WholeStore

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

SETTLE_S = 1.2
"""Several times as long as the users of a server need to notice a change, also on a busy machine."""


@pytest.fixture(params=engines("rest", "server"))
async def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[QdrantServer]:
    """A server whose users notice within a fraction of a second what else takes seconds."""
    monkeypatch.setattr("worker.adapters.qdrant.server.connection.FOLLOW_S", 0.1)
    monkeypatch.setattr(ServerGenerations, "settle_s", property(lambda self: SETTLE_S))
    async with qdrant_server(request.param) as running:
        yield running


def generations_on(server: QdrantServer) -> ServerGenerations:
    return ServerGenerations(server.url, api_key=None, name=server.name)


def barges(count: int) -> list[dict[str, Any]]:
    return [fact(f"m{n}", f"Barge {n} was sold to the harbour master") for n in range(count)]


async def test_another_process_reads_and_writes_while_a_reindex_goes_over(server: QdrantServer, tmp_path: Path) -> None:
    stop, written, missed = asyncio.Event(), list[str](), list[Any]()

    async def other(kept: ServedStore) -> None:
        """A worker of the former embedder, which knows nothing of the reindex."""
        number = 1000
        while not stop.is_set():
            await kept.put(fact(f"m{number}", f"Barge {number} came late"))
            written.append(f"m{number}")
            if not [hit for hit in await kept.search("Barge 7 was sold") if hit["id"] == "m7"]:
                missed.append(number)
            number += 1
            await asyncio.sleep(0.01)

    async with open_served_store(tmp_path / "a", small(), generations=generations_on(server)) as theirs:
        await theirs.put(*barges(60))
        async with open_served_store(tmp_path / "b", large(), generations=generations_on(server)) as ours:
            assert "64 dimensions" in str((await ours.host.store().health()).fault)
            writing = asyncio.create_task(other(theirs))
            done = await ours.maintenance.reindex(ours.progress)
            stop.set()
            await writing
            assert missed == []
            assert len(written) > 5
            contents = await ours.contents()
            assert set(contents) == {f"m{n}" for n in range(60)} | set(written)
            assert done["live"] == f"{server.name}-2"
            async with asyncio.timeout(20):
                while await theirs.contents() != contents:
                    await asyncio.sleep(0.05)
            health = await theirs.host.store().health()
            assert health.dense_usable is False
            await ours.call(FORGET, {"tenant": "t1", "ids": ["m7"]})
            assert "m7" not in [hit["id"] for hit in await theirs.search("Barge 7 was sold")]
            generations = await ours.generations.generations()
            assert (generations.live, generations.previous) == (f"{server.name}-2", (server.name,))


async def test_what_was_changed_on_both_sides_stays_as_the_new_generation_has_it(
    server: QdrantServer, tmp_path: Path
) -> None:
    """Late writes to the former generation are brought over, but never over a newer one."""
    async with open_served_store(
        tmp_path, small(), named={"large": large()}, generations=generations_on(server)
    ) as kept:
        await kept.put(*barges(10))
        former = await generations_on(server).open(server.name, recipe(small()))
        late = kept.host.serving.handlers
        running = asyncio.create_task(kept.maintenance.reindex(kept.progress, embedder="large"))
        while kept.progress.phase != "settling":
            await asyncio.sleep(0.01)
        await kept.put(fact("m1", "Newer, in the new generation"))
        behind = [("m1", "Older, in the former one"), ("m2", "Late, in the former one"), ("late", "Late and new")]
        for key, content in behind:
            await former.tenant("t1").put([stored(Memory(id=key, content=content), bare=True)])
        await former.tenant("t1").delete(["m3"])
        done = await running
        contents = await kept.contents()
        assert contents["m1"] == "Newer, in the new generation"
        assert contents["m2"] == "Late, in the former one"
        assert contents["late"] == "Late and new"
        assert "m3" not in contents
        assert done["late_writes"] == 3
        assert (await kept.host.store().health()).bare == 0
        assert late is not kept.host.serving.handlers
        await former.aclose()


async def test_a_restore_keeps_what_is_written_meanwhile_here_and_elsewhere(
    server: QdrantServer, tmp_path: Path
) -> None:
    async with open_served_store(tmp_path / "a", small(), generations=generations_on(server)) as kept:
        await kept.put(*barges(10))
        await kept.maintenance.backup(kept.progress, tmp_path / "copy")
        await kept.put(fact("gone", "Only here before the restore"))
        former = await generations_on(server).open(server.name, recipe(small()))
        running = asyncio.create_task(kept.maintenance.restore(kept.progress, tmp_path / "copy", force=True))
        while kept.progress.phase != "settling":
            await asyncio.sleep(0.01)
        await kept.put(fact("m1", "Newer, in the restored generation"))
        for key, content in (("m1", "Older, in the former one"), ("m2", "Late"), ("late", "Late and new")):
            await former.tenant("t1").put([stored(Memory(id=key, content=content), bare=True)])
        await former.tenant("t1").delete(["m3"])
        done = await running
        await former.aclose()
        contents = await kept.contents()
        wanted = {f"m{n}" for n in range(10)} - {"m3"} | {"late"}
        assert (set(contents), done["late_writes"]) == (wanted, 3)
        assert (contents["m1"], contents["m2"]) == ("Newer, in the restored generation", "Late")


async def test_a_second_job_on_a_shared_store_is_refused_and_leaves_the_first_alone(
    server: QdrantServer, tmp_path: Path
) -> None:
    slow = large()
    slow.delay = 0.02
    async with (
        open_served_store(tmp_path / "a", small(), named={"large": slow}, generations=generations_on(server)) as ours,
        open_served_store(
            tmp_path / "b", small(), named={"large": large()}, generations=generations_on(server)
        ) as theirs,
    ):
        await ours.put(*barges(150))
        running = asyncio.create_task(ours.maintenance.reindex(ours.progress, embedder="large"))
        while ours.progress.phase != "copying" or not ours.progress.done:
            await asyncio.sleep(0.01)
        for second in (
            theirs.maintenance.reindex(theirs.progress, force=True),
            theirs.maintenance.prune(theirs.progress),
        ):
            with pytest.raises(StoreError, match="another process is working on this store"):
                await second
        assert (await running)["live"] == f"{server.name}-2"
        assert len(await ours.contents()) == 150
        assert (await theirs.maintenance.prune(theirs.progress))["deleted"] == [server.name]


async def test_the_job_of_a_crashed_process_does_not_block_for_ever(server: QdrantServer, tmp_path: Path) -> None:
    async with open_served_store(
        tmp_path, small(), named={"large": large()}, generations=generations_on(server)
    ) as kept:
        await kept.put(*barges(3))
        await server.client.update_collection_aliases([create_alias(f"{server.name}-job-dead-1000", server.name)])
        assert (await kept.maintenance.reindex(kept.progress, embedder="large"))["live"] == f"{server.name}-2"
        assert not [alias for alias in await server.aliases() if "-job-" in alias]


async def test_a_change_during_a_switch_goes_to_the_new_generation(server: QdrantServer, tmp_path: Path) -> None:
    """The name of the collection is looked up for each request, not before the alias is."""
    async with open_served_store(tmp_path, small(), generations=generations_on(server)) as kept:
        await kept.put(*barges(3))
        draft = await generations_on(server).open(f"{server.name}-2", recipe(small()))
        await draft.tenant("t1").put([stored(Memory(id=f"m{n}", content=f"New {n}"), bare=True) for n in range(3)])
        await generations_on(server).promote(f"{server.name}-2")
        await asyncio.sleep(0.15)
        tenant = kept.host.store().tenant("t1")
        assert await tenant.delete(["m1"]) == 1
        assert [memory.id for memory in await draft.tenant("t1").get(["m0", "m1", "m2"])] == ["m0", "m2"]
        await draft.aclose()


async def test_going_back_and_pruning_on_a_server(server: QdrantServer, tmp_path: Path) -> None:
    async with open_served_store(
        tmp_path, small(), named={"large": large()}, generations=generations_on(server)
    ) as kept:
        await kept.put(*barges(10))
        await kept.maintenance.reindex(kept.progress, embedder="large")
        await kept.put(fact("since", "Written since"))
        assert (await kept.maintenance.rollback(kept.progress))["live"] == server.name
        assert "since" in await kept.contents()
        assert (await kept.maintenance.prune(kept.progress))["deleted"] == [f"{server.name}-2"]
        assert await server.collections() == [server.name]
        await kept.maintenance.reindex(kept.progress, embedder="large")
        await kept.maintenance.prune(kept.progress)
        assert await server.collections() == [f"{server.name}-2"]
        assert len(await kept.contents()) == 11
    async with open_served_store(tmp_path, large(), generations=generations_on(server)) as kept:
        assert (await kept.search("Barge 7 was sold"))[0]["cosine"] is not None


async def test_there_and_back(server: QdrantServer, tmp_path: Path) -> None:
    """Embedded store to server, and from there into another embedded one, vectors and all."""
    embedders = [small() for _ in range(3)]

    async def to_server(to: str, wanted: Recipe) -> WholeStore:
        return await generations_on(server).open_live(wanted)

    async def to_folder(to: str, wanted: Recipe) -> WholeStore:
        return await EdgeGenerations(tmp_path / "b").open_live(wanted)

    async with open_served_store(tmp_path / "a", embedders[0], elsewhere=to_server) as kept:
        await kept.put(*barges(150))
        await kept.put(fact("x", "Of another tenant"), tenant="t2")
        assert (await kept.maintenance.migrate(kept.progress, "http://server"))["migrated"] == 151
        await kept.put(fact("late", "Written after the move"))
        await kept.call(FORGET, {"tenant": "t1", "ids": ["m0"]})
        with pytest.raises(StoreError, match="--force"):
            await kept.maintenance.migrate(kept.progress, "http://server")
        assert (await kept.maintenance.migrate(kept.progress, "http://server", force=True))["migrated"] == 151
        expected = await kept.contents()
    async with open_served_store(
        tmp_path / "s", embedders[1], generations=generations_on(server), elsewhere=to_folder
    ) as kept:
        assert await kept.contents() == expected
        assert (await kept.maintenance.migrate(kept.progress, "edge"))["migrated"] == 151
        assert embedders[1].passages == []
    async with open_served_store(tmp_path / "b", embedders[2]) as kept:
        assert await kept.contents() == expected
        assert await kept.contents("t2") == {"x": "Of another tenant"}
        assert (await kept.search("Barge 7 was sold to the harbour master"))[0]["cosine"] == pytest.approx(
            1.0, abs=1e-5
        )


async def test_a_target_made_by_other_recipes_is_refused(server: QdrantServer, tmp_path: Path) -> None:
    async with open_served_store(tmp_path / "s", large(), generations=generations_on(server)) as kept:
        await kept.put(*barges(3))

    async def to_server(to: str, wanted: Recipe) -> WholeStore:
        return await generations_on(server).open_live(wanted)

    async with open_served_store(tmp_path / "a", small(), elsewhere=to_server) as kept:
        await kept.put(*barges(3))
        with pytest.raises(StoreError, match="128 dimensions"):
            await kept.maintenance.migrate(kept.progress, "http://server", force=True)


async def test_a_worker_that_was_started_with_the_new_embedder_uses_vectors_once_they_fit(
    server: QdrantServer, tmp_path: Path
) -> None:
    async with open_served_store(tmp_path / "a", small(), generations=generations_on(server)) as kept:
        await kept.put(*barges(20))
    async with (
        open_served_store(tmp_path / "b", large(), generations=generations_on(server)) as waiting,
        open_served_store(tmp_path / "c", large(), generations=generations_on(server)) as working,
    ):
        waiting.host.keep_fitting(0.05)
        assert waiting.host.serving.dense_usable is False
        await working.maintenance.reindex(working.progress)
        async with asyncio.timeout(10):
            while not waiting.host.serving.dense_usable:
                await asyncio.sleep(0.02)
        assert (await waiting.search("Barge 7 was sold"))[0]["cosine"] is not None
        await waiting.put(fact("new", "Stored with its vector"))
        assert (await waiting.host.store().health()).bare == 0
