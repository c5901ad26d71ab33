"""`python -m bench.upkeep`: how long upkeep of a large store takes, and what answers wait for meanwhile."""

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

from hooks.queue import connect
from worker.adapters.redis.embedded_valkey import EmbeddedValkey
from worker.bootstrap.core import open_core
from worker.operations.client import OperationClient
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import INJECT, UPKEEP, UPKEEP_SHOW
from worker.settings.injection import load_settings

from .corpus import TENANT, messages
from .measure import percentile
from .progress import make_progress
from .stores import make_store

PAUSE_S = 0.05
ALONE = 200
"""Answers that are measured before upkeep begins."""

MB = 1 << 20
_sessions = count()


async def _answer(client: OperationClient, message: str) -> float:
    """Return the milliseconds of one answer in a session of its own."""
    request = {"session_id": f"s{next(_sessions)}", "message": message, "scope": {"tenant": TENANT}}
    began = time.perf_counter()
    await client.call(INJECT, {**request, "mode": "deterministic"})
    return (time.perf_counter() - began) * 1000


async def _while(client: OperationClient, goes_on: Callable[[int], Awaitable[bool]]) -> list[float]:
    found: list[float] = []
    for message in messages():
        if not await goes_on(len(found)):
            break
        found.append(await _answer(client, message))
        await asyncio.sleep(PAUSE_S)
    return found


async def _run(client: OperationClient, alone: float, *, apply: bool) -> None:
    report: dict[str, Any] = await client.call(UPKEEP, {"tenant": TENANT, "apply": apply})
    asked = {"tenant": TENANT, "id": report["run"]["id"]}

    async def goes_on(_: int) -> bool:
        report.update(await client.call(UPKEEP_SHOW, asked))
        return bool(report["run"]["state"] == "running")

    beside = percentile(await _while(client, goes_on), 0.95)
    run = report["run"]
    kinds = [step["kind"] for step in run["steps"]]
    found = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    print(
        f"{'applied' if apply else 'report'}: {run['memories']} memories, {run['seconds']} s, {run['state']}: {found}"
    )
    print(f"  {run['left']} left; answers beside it: p95 {beside:.1f} ms, {beside / alone:.2f} times as long")
    print(f"  most memory {_most_mb():.0f} MB")


async def _measure(url: str, folder: Path) -> None:
    redis = connect(url)
    settings = load_settings(None, data_dir=folder, model="none", log_level="error")
    async with open_core(settings, redis=redis) as core:
        client = LocalOperationClient(core.operations)
        for message in islice(messages(), 20):
            await _answer(client, message)

        async def few(done: int) -> bool:
            return done < ALONE

        alone = percentile(await _while(client, few), 0.95)
        print(f"answers alone: p95 {alone:.1f} ms; most memory {_most_mb():.0f} MB")
        for apply in (False, True):
            await _run(client, alone, apply=apply)
    await redis.aclose()


def _most_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--cache", type=Path, default=Path(__file__).with_name("results") / "cache")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with make_progress() as progress:
            make_store(Path(folder) / "data", options.memories, options.cache, progress)
        with EmbeddedValkey(Path(folder) / "valkey", persist=False) as valkey:
            asyncio.run(_measure(valkey.url, Path(folder) / "data"))


if __name__ == "__main__":
    main()
