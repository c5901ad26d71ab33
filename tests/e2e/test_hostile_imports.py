"""Files made to exhaust a service, over HTTP: others are answered meanwhile, and memory and time stay bounded."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from tests.support.stack import HTTP, Stack, running_stack

VARIABLES = {**HTTP, "MEESEEKS_EMBEDDER": "none", "MEESEEKS_MODEL": "none"}
MARKDOWN = {"content-type": "text/markdown"}
MOST_GROWTH = 200 * 2**20


def alias_bomb() -> str:
    names = "abcdefghij"
    lines = [f"a: &a [{','.join('x' * 10)}]"]
    lines += [f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]" for before, name in pairwise(names)]
    return "---\n" + "\n".join(lines) + "\ntags: *j\n---\n- The harbour opens at six\n"


HOSTILE = {
    "aliases": (alias_bomb(), MARKDOWN),
    "impossible date": ("---\ndate: 2026-13-45\n---\n- The harbour opens at six\n", MARKDOWN),
    "long number": (f"---\nimportance: {'9' * 6_000}\n---\n- The harbour opens at six\n", MARKDOWN),
    "deep brackets": (f"---\ntags: {'[' * 3_000}\n---\n- The harbour opens at six\n", MARKDOWN),
    "deep list": ("\n".join("  " * level + "- x" for level in range(3_000)), MARKDOWN),
    "unclosed quote": ('content\n"' + "The harbour\n" * 12_000, {"content-type": "text/csv"}),
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("hostile"), "up", **VARIABLES) as stack:
        yield stack


def memory_of(pid: int) -> int:
    """Return the resident bytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


async def slowest_answer(client: httpx.AsyncClient, busy: "asyncio.Task[httpx.Response]") -> float:
    """Ask for a recall again and again until `busy` ends; return the longest wait."""
    longest = 0.0
    while True:
        started = time.monotonic()
        answer = await client.post("/v1/recall", json={"query": "harbour"})
        longest = max(longest, time.monotonic() - started)
        assert answer.status_code == 200
        if busy.done():
            return longest
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", HOSTILE)
async def test_others_are_answered_while_a_hostile_file_is_read(stack: Stack, name: str) -> None:
    text, headers = HOSTILE[name]
    before = memory_of(stack.pid)
    async with httpx.AsyncClient(base_url=stack.http, timeout=60) as client:
        importing = asyncio.create_task(client.post("/v1/memories/import", content=text.encode(), headers=headers))
        assert await slowest_answer(client, importing) < 5.0
        report = (await importing).json()
        health = await client.get("/healthz")
    assert (await importing).status_code in (200, 422), report
    assert report.get("rejected") or report.get("created") or report.get("unchanged") or report.get("detail"), report
    assert health.status_code == 200
    assert memory_of(stack.pid) - before < MOST_GROWTH


async def test_a_client_that_leaves_stops_its_import(stack: Stack) -> None:
    text, headers = HOSTILE["unclosed quote"]
    async with httpx.AsyncClient(base_url=stack.http, timeout=60) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post(
                "/v1/memories/import", content=text.encode() * 40, headers=headers, timeout=httpx.Timeout(60, read=0.05)
            )
        async with asyncio.timeout(30):
            while children_of(stack.pid):
                await asyncio.sleep(0.1)
        assert (await client.get("/healthz")).status_code == 200


def children_of(pid: int) -> list[str]:
    """Return the command lines of readers that a process has started."""
    found = list[str]()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            children = (task / "children").read_text(encoding="ascii").split()
            found += [Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8") for child in children]
    return [line for line in found if "worker.transfer" in line]
