"""A process that opens the store in the folder of its first argument and does what the second one says."""

import asyncio
import itertools
import sys
from pathlib import Path

from tests.support.store import ENCODER, memory, profile, stored
from worker.adapters.qdrant.edge.store import EdgeStore


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def write(folder: str, task: str) -> None:
    store = await EdgeStore.open(Path(folder), profile=profile(), bm25_hash=ENCODER.config_hash, flush_every=3600.0)
    say("open")
    if task == "hold":
        await asyncio.sleep(3600)
    tenant = store.tenant("north")
    for number in itertools.count():
        ids = [f"m{number}-{index}" for index in range(20)]
        await tenant.put([stored(memory(key, f"bell {key}")) for key in ids])
        say(" ".join(ids))


def main() -> None:
    asyncio.run(write(sys.argv[1], sys.argv[2]))
