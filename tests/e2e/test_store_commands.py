"""Keeping a store with the real command while the real service serves from it."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hooks.queue import QueueClient
from tests.support.stack import command, environment, fact, put, running_stack
from worker.operations.registry import RECALL

KEYWORDS = {"MEESEEKS_EMBEDDER": "none", "MEESEEKS_MODEL": "none"}
VECTORS = {"MEESEEKS_EMBEDDER": "minilm", "MEESEEKS_MODEL": "none"}
BARGES = 200
QUESTION = "Whom was the barge Keel7 of registry Oak49 sold to?"


def barge(number: int) -> str:
    """Long enough that embedding all of them takes several times as long as the store waits before it flushes."""
    sheets = (f"Sheet {number * 31 + sheet}: hull, engine, anchor and berth were inspected." for sheet in range(8))
    sale = f"The barge Keel{number} of registry Oak{number * 7} was sold to the harbour master of town {number % 17}."
    return f"{sale} {' '.join(sheets)}"


def barges(count: int) -> list[dict[str, Any]]:
    return [fact(f"m{number}", barge(number)) for number in range(count)]


def said(run: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert run.returncode == 0, run.stdout + run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


async def best_cosine(url: str) -> float | None:
    """Cosine of the best memory that a recall finds; it must find one."""
    client = QueueClient(url)
    try:
        payload = {"query": QUESTION, "scope": {"tenant": "acme"}}
        found = (await client.ask(RECALL.name, payload, budget=10.0, ack_timeout=5.0)).body["memories"]
    finally:
        await client.aclose()
    cosine: float | None = found[0]["cosine"]
    return cosine


@pytest.mark.slow
async def test_vectors_backup_and_restore_while_the_service_serves_and_is_killed(tmp_path: Path) -> None:
    with running_stack(tmp_path, "up", **KEYWORDS) as stack:
        for start in range(0, BARGES, 100):
            await put(stack.url, barges(BARGES)[start : start + 100])
        line = [sys.executable, "-m", "worker", "--data-dir", str(tmp_path / "data")]
        reindex = subprocess.Popen(
            [*line, "store", "reindex", "--embedder", "minilm", "--json"], env=environment(**KEYWORDS), cwd=tmp_path
        )
        with reindex:
            record = tmp_path / "data" / "memories-2" / "store.json"
            end = time.monotonic() + 50
            while not (record.exists() and json.loads(record.read_text(encoding="utf-8"))["points"]):
                assert time.monotonic() < end, stack.log
                time.sleep(0.02)
            assert await best_cosine(stack.url) is None
            stack.kill()
            assert reindex.wait(30) == 1
        stack.start()
        info = said(stack.command("store", "info", "--json"))
        assert (info["generations"]["live"], info["generations"]["draft"]) == ("memories", "memories-2")
        done = said(stack.command("store", "reindex", "--embedder", "minilm", "--json", seconds=90))
        assert (done["reindexed"], done["live"], done["self_found"]) == (BARGES, "memories-2", 1.0)
        assert (await best_cosine(stack.url) or 0.0) > 0.4
        backed = said(stack.command("store", "backup", str(tmp_path / "copy.tar.gz"), "--json"))
        assert backed["memories"] == BARGES
    other = tmp_path / "other"
    other.mkdir()
    restored = said(command(other, "store", "restore", str(tmp_path / "copy.tar.gz"), "--json", variables=VECTORS))
    assert restored["restored"] == BARGES
    info = said(command(tmp_path, "store", "info", "--json", variables=VECTORS))
    assert (info["store"]["points"], info["store"]["fault"], info["store"]["bare"]) == (BARGES, None, 0)
