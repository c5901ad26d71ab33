"""The memory that large batches take from the system, and that a process keeps after them."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, resource
from worker.adapters.models.minilm import MiniLmEmbedder
from worker.bootstrap.process_memory import give_back_freed_memory

def held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) // 1024

async def main():
    embedder = MiniLmEmbedder()
    await embedder.warm()
    before, faults = held(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for number in range(2):
        await embedder.embed_passages([f"{number} {place} " + "a long text " * 80 for place in range(8)])
    print(held() - before, (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) // 16)
    await embedder.aclose()

give_back_freed_memory()
asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs Linux")
def test_what_large_batches_needed_is_reused_and_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60)
    kept_mb, pages_per_text = map(int, done.stdout.split())
    assert kept_mb < 50
    assert pages_per_text < 5_000, "new memory for each layer of each run would be some 20,000 pages"
