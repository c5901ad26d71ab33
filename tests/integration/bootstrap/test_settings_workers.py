"""A changed setting is used by every worker at once, and by each request from its start to its end.

Two worker processes share a Valkey; each has a store and a settings file of its own, and ids tell who answered.
"""

import asyncio
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from hooks import InjectionResult
from hooks.contract import Reason
from hooks.queue import QueueClient, QueueFault
from tests.support.command_line import command_line
from tests.support.stack import Stack, running_stack
from tests.support.valkey import running_valkey
from worker.domain.operation import AnyOperation
from worker.operations.registry import HEALTH, INJECT, RECEIPTS, SETTINGS_PATCH, SETTINGS_RESET

pytestmark = pytest.mark.slow

SETTINGS = """\
[service]
model = "none"

[memory_injection]
max_total = 8
max_items = 8
strategy = "deterministic"
relative_cut = 0.0
confident_score = 0.0
contextual_min_score = -1.0
keyword_min_score = 0.0
deadline_ms = 10000
shared_users = []

[[agents]]
id = "courier"
enabled = false
"""
PLACES = ("harbour", "mill", "chapel", "quarry", "orchard", "lighthouse", "ferry", "market")
PROMISED_S = 2.0
NOISE_S = 1.0
"""Seconds added to what is promised, for other processes that use the same cores."""


class Pair:
    """Two workers, `a` and `b`, as seen from outside."""

    def __init__(self, url: str, workers: dict[str, Stack]) -> None:
        self.url = url
        self.workers = workers

    async def __aenter__(self) -> "Pair":
        self.client = QueueClient(self.url)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()

    async def ask(self, agent: str = "main") -> InjectionResult:
        """One request in a session of its own; a busy box may take its time to take it up."""
        message = "route notes for the courier round?"
        request = {"session_id": uuid.uuid4().hex, "agent_id": agent, "message": message, "deadline_ms": 10_000}
        return InjectionResult.model_validate(await self.call(INJECT, **request))

    async def call(self, operation: AnyOperation, **payload: Any) -> dict[str, Any]:
        return (await self.client.ask(operation.name, payload, budget=10.0, ack_timeout=5.0)).body

    async def until_both(self, count: int, agent: str = "main") -> float:
        """Ask until each worker has given `count` memories and nothing else for ten times; the seconds to the first."""
        begun, first = time.monotonic(), None
        seen: Counter[str] = Counter()
        while min(seen[name] for name in self.workers) < 10:
            result = await self.ask(agent)
            waited = time.monotonic() - begun
            if len(result.items) == count:
                first = waited if first is None else first
                seen[by(result)] += 1
            else:
                assert waited < PROMISED_S + NOISE_S, (len(result.items), result.reason)
                seen.clear()
                first = None
        return first or 0.0


def by(result: InjectionResult) -> str:
    """Who answered."""
    (name,) = {item.id[0] for item in result.items}
    return name


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Stack]]]:
    root = tmp_path_factory.mktemp("workers")
    with running_valkey() as valkey, ExitStack() as stack:
        workers: dict[str, Stack] = {}
        for name in ("a", "b"):
            folder = root / name
            folder.mkdir()
            (folder / "meeseeks.toml").write_text(SETTINGS, encoding="utf-8")
            lines = [json.dumps({"id": f"{name}-{place}", "content": f"Route note: {place} gate"}) for place in PLACES]
            (folder / "notes.jsonl").write_text("\n".join(lines), encoding="utf-8")
            shell = command_line(folder, MEESEEKS_EMBEDDER="minilm", MEESEEKS_CONFIG=str(folder / "meeseeks.toml"))
            shell.ok("import", str(folder / "notes.jsonl"))
            workers[name] = stack.enter_context(running_stack(folder, "worker", MEESEEKS_REDIS_URL=valkey.url))
        yield valkey.url, workers


async def test_a_change_reaches_both_workers_while_requests_run(running: tuple[str, dict[str, Stack]]) -> None:
    async with Pair(*running) as pair:
        await pair.until_both(8)
        asked = [asyncio.create_task(pair.ask()) for _ in range(10)]
        await asyncio.sleep(0.01)
        changed = await pair.call(SETTINGS_PATCH, values={"max_total": 2})
        asked += [asyncio.create_task(pair.ask()) for _ in range(10)]
        results = await asyncio.gather(*asked)
        assert {(len(result.items), result.reason) for result in results} <= {(2, None), (8, None)}
        await pair.until_both(2)

        receipts = (await pair.call(RECEIPTS, limit=200))["receipts"]
        used = {(receipt["config_version"], receipt["config"]["max_total"]) for receipt in receipts}
        assert len(used) == 2
        assert (changed["version"], 2) in used
        shown = {result.receipt_id: len(result.items) for result in results}
        in_flight = [receipt for receipt in receipts if receipt["id"] in shown]
        assert len(in_flight) == 20
        assert all(shown[receipt["id"]] == receipt["config"]["max_total"] for receipt in in_flight)

        with pytest.raises(QueueFault, match=r"memory_injection\.max_total: must be between 1 and 100") as refused:
            await pair.call(SETTINGS_PATCH, values={"max_total": -1})
        assert refused.value.reason is Reason.BAD_REQUEST
        await pair.until_both(2)
        await pair.call(SETTINGS_RESET)
        await pair.until_both(8)


async def test_an_override_of_one_agent_goes_field_by_field(running: tuple[str, dict[str, Stack]]) -> None:
    async with Pair(*running) as pair:
        assert (await pair.ask("courier")).reason is Reason.DISABLED
        await pair.call(SETTINGS_PATCH, values={"max_total": 3})
        view = await pair.call(SETTINGS_PATCH, agent_id="courier", values={"enabled": True, "max_total": 1})
        assert view["memory_injection_overridden"]
        await pair.until_both(1, "courier")
        await pair.until_both(3)
        view = await pair.call(SETTINGS_PATCH, agent_id="courier", unset=["max_total"])
        enabled = view["memory_injection"]["enabled"]
        assert (enabled["value"], enabled["origin"], enabled["at"]) == (True, "agent override", None)
        assert (enabled["inherited"]["value"], enabled["inherited"]["origin"]) == (False, "agent file")
        await pair.until_both(3, "courier")
        await pair.call(SETTINGS_RESET, agent_id="courier")
        await asyncio.sleep(PROMISED_S)
        assert {(await pair.ask("courier")).reason for _ in range(10)} == {Reason.DISABLED}
        await pair.call(SETTINGS_RESET)
        await pair.until_both(8)


async def test_edits_of_files_need_no_restart(running: tuple[str, dict[str, Stack]]) -> None:
    _, workers = running
    files = [stack.folder / "meeseeks.toml" for stack in workers.values()]
    async with Pair(*running) as pair:
        await pair.until_both(8)
        for file in files:
            file.write_text(SETTINGS.replace("max_total = 8", "max_total = 4"), encoding="utf-8")
        await pair.until_both(4)
        for file in files:
            file.write_text(SETTINGS.replace("max_total = 8", "max_total = -4"), encoding="utf-8")
        await asyncio.sleep(PROMISED_S)
        await pair.until_both(4)
        assert "meeseeks.toml:5: memory_injection.max_total" in (await pair.call(HEALTH))["settings"]["faults"]["file"]
        assert all("change_rejected" in stack.log for stack in workers.values())

        doctor = workers["a"].command("doctor", "--json")
        assert doctor.returncode == 1
        told = {check["name"]: check for check in json.loads(doctor.stdout)["checks"]}
        assert not told["settings"]["ok"]
        assert "max_total" in told["settings"]["detail"]
        shown = workers["a"].command("settings")
        assert shown.returncode == 0, shown.stderr
        assert "NOT IN FORCE" in shown.stdout

        for file in files:
            file.write_text(SETTINGS.replace('"none"', '"none"\nmax_jobs = 7'), encoding="utf-8")
        await pair.until_both(8)
        status = (await pair.call(HEALTH))["settings"]
        assert (status["faults"], status["needs_restart"]) == ({}, ["service.max_jobs"])
        assert all("settings_need_restart" in stack.log for stack in workers.values())
        for file in files:
            file.write_text(SETTINGS, encoding="utf-8")
        sound: set[int] = set()
        while len(sound) < len(workers):  # both have read it before the next test asks
            health = await pair.call(HEALTH)
            sound |= {health["pid"]} if not health["settings"]["needs_restart"] else set()


async def test_the_command_sets_shows_and_forgets(running: tuple[str, dict[str, Stack]]) -> None:
    stack = running[1]["b"]

    async def settings(*arguments: str) -> dict[str, Any]:
        done = await stack.command_here("settings", *arguments, "--json")
        told: dict[str, Any] = json.loads(done.stdout)
        return {**told, "status": done.exit_code}

    assert (await settings("set", "max_total", "5", "--agent", "scout"))["memory_injection_overridden"]
    own: dict[str, Any] = {}
    until = asyncio.get_running_loop().time() + 10
    while own.get("value") != 5 and asyncio.get_running_loop().time() < until:  # the other worker may answer
        own = (await settings("--agent", "scout"))["memory_injection"]["max_total"]
    assert (own["value"], own["origin"], own["at"]) == (5, "agent override", None)
    assert set(own["inherited"]) == {"value", "origin", "at"}
    assert own["inherited"]["origin"] != "agent override"
    assert (await settings("--agent", "scout"))["memory_injection"]["max_items"]["at"].endswith("meeseeks.toml:6")
    assert (await settings("set", "skip_sources", "cron,retrigger"))["memory_injection"]["skip_sources"]["value"] == [
        "cron",
        "retrigger",
    ]
    assert (await settings("unset", "skip_sources"))["memory_injection"]["skip_sources"]["origin"] == "default"
    refused = await settings("set", "max_total", "-1")
    assert refused["status"] == 1
    assert "memory_injection.max_total" in refused["error"]
    assert not (await settings("reset", "--agent", "scout"))["memory_injection_overridden"]

    saved = (await settings("set", "max_total", "6", "--agent", "scout"))["saved_version"]
    stale = await settings("set", "max_total", "4", "--agent", "scout", "--if-version", str(saved - 1))
    assert stale["status"] == 1
    assert f"read them again, then repeat your change with version {saved}" in stale["error"]
    assert (await settings("unset", "max_total", "--agent", "scout", "--if-version", str(saved)))[
        "saved_version"
    ] == saved + 1
    assert (await settings("undo", str(saved + 1)))["memory_injection"]["max_total"]["value"] == 6
    assert "undone already" in (await settings("undo", str(saved + 1)))["error"]
    newest, undone, *_ = (await settings("history", "--agent", "scout", "--key", "max_total"))["changes"]
    assert (newest["undoes"], undone["undone_by"]) == (saved + 1, saved + 2)
    assert newest["author"] == {"name": "local", "via": "cli"}
    told = (await stack.command_here("settings", "history", "--limit", "1")).stdout
    assert f"undoes {saved + 1}" in told
    await settings("reset", "--agent", "scout")
