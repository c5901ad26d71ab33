"""The memory that a process keeps after large batches."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, sys
from worker.adapters.models.minilm import MiniLmEmbedder
from worker.bootstrap.process_memory import give_back_freed_memory

def held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) // 1024

async def main():
    embedder = MiniLmEmbedder()
    await embedder.warm()
    before = held()
    for number in range(2):
        await embedder.embed_passages([f"{number} {place} " + "a long text " * 80 for place in range(8)])
    print(held() - before)
    await embedder.aclose()

if sys.argv[1] == "given back":
    give_back_freed_memory()
asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs Linux")
def test_what_large_batches_needed_is_given_back() -> None:
    assert _kept_mb("given back") < 50


def _kept_mb(how: str) -> int:
    command = [sys.executable, "-c", SCRIPT, how]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)
