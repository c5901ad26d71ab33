"""An embedded store on a disk that is full: reads go on, and changes and openings are refused in plain words."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.store import ENCODER, direction, memory, query, stored
from worker.adapters.qdrant.edge.space import LEAST_FREE
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.domain.errors import StoreError, StoreFull

SIZE = "size=192m"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a small file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", SIZE, "tmpfs", folder], check=False).returncode
    ):
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Path:
    """Write zeros until nothing more fits."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    assert shutil.disk_usage(disk).free < 1 << 16
    return filler


async def open_store(disk: Path) -> EdgeStore:
    return await EdgeStore.open(disk / "store", profile=None, bm25_hash=ENCODER.config_hash)


async def test_reads_go_on_and_changes_are_refused_until_there_is_room(disk: Path) -> None:
    store = await open_store(disk)
    north, first, second = store.tenant("north"), memory("m1", "The larch beam is cracked"), memory("m2", "Bells ring")
    await north.put([stored(first)])
    filler = fill(disk)
    for change in (lambda: north.put([stored(second)]), lambda: north.delete(["m1"])):
        with pytest.raises(StoreFull, match=r"is full: 0 MiB are free.*free some space"):
            await change()
    with pytest.raises(StoreError, match="could not be written to disk"):
        await store.flush()
    assert await north.get(["m1"]) == [first]
    (hit,) = await north.search(query("larch", direction(first.content)))
    assert hit.memory == first
    filler.unlink()
    await north.put([stored(second)])
    await store.aclose()
    again = await open_store(disk)
    assert await again.tenant("north").get(["m1", "m2"]) == [first, second]
    await again.aclose()


async def test_a_store_does_not_open_on_a_full_disk_and_loses_nothing(disk: Path) -> None:
    store = await open_store(disk)
    await store.tenant("north").put([stored(memory("m1", "The larch beam is cracked"))])
    filler = fill(disk)
    with suppress(StoreError):  # what was acknowledged is in the log of the store
        await store.aclose()
    with pytest.raises(StoreFull, match=f"needs {LEAST_FREE >> 20}"):
        await open_store(disk)
    filler.unlink()
    again = await open_store(disk)
    assert await again.tenant("north").count() == 1
    await again.aclose()
