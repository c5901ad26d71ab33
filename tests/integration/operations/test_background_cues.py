"""Cues that a model writes while the service runs: for what is new, within the budget, and on after a kill."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cue_models import CueModel
from tests.support.forked import Forked
from tests.support.hasty_cues import PACE
from tests.support.operations import open_operations, scripted
from tests.support.stack import environment
from tests.support.upstream_thread import upstream_thread
from tests.support.valkey import forget
from worker.bootstrap import cues as cue_making
from worker.cli.checks import Check
from worker.cli.doctor import _findings
from worker.operations.background_cues import Activity, Pace
from worker.operations.bulk import pages
from worker.operations.client import OperationClient
from worker.operations.registry import HEALTH, PUT, UPDATE
from worker.settings.selection import Strategy


@pytest.fixture
def url(valkey: str) -> Iterator[str]:
    yield valkey
    forget(valkey)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cue_making, "PACE", PACE)


@asynccontextmanager
async def service(url: str, folder: Path, base: str | None, **service_settings: Any) -> AsyncIterator[OperationClient]:
    """A service whose model is at `base`; without, it has none."""
    model = scripted(base) if base else {}
    async with open_operations(url, folder, embedder="none", **model, **service_settings) as opened:
        yield opened


async def put(client: OperationClient, numbers: range, tenant: str = "default") -> None:
    memories = [{"id": f"m{n}", "content": f"Barge {n} was sold to harbour {n}"} for n in numbers]
    await client.call(PUT, {"tenant": tenant, "memories": memories})


async def with_cues(client: OperationClient, tenant: str = "default") -> set[str]:
    return {memory.id async for page in pages(client, tenant) for memory in page if memory.cues}


async def checked(client: OperationClient) -> list[Check]:
    """Return what `meeseeks doctor` finds of a service."""
    return _findings(await client.call(HEALTH, {}), Strategy.AUTO)


async def progress(client: OperationClient) -> dict[str, Any]:
    found: dict[str, Any] = (await client.call(HEALTH, {}))["cues"]
    return found


async def until(is_so: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait until an awaited condition holds."""
    end = time.monotonic() + seconds
    while not await is_so():
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


async def test_what_was_written_since_gets_cues_once(url: str, tmp_path: Path) -> None:
    model = CueModel()
    with upstream_thread(model) as upstream:
        async with service(url, tmp_path, upstream.url) as client:
            await put(client, range(7))
            await put(client, range(2), tenant="acme")

            async def all_have() -> bool:
                return len(await with_cues(client)) == 7 and len(await with_cues(client, "acme")) == 2

            await until(all_have)
            await put(client, range(7, 9))
            given = {"id": "own", "content": "Kim rows at dawn", "cues": ["who rows at dawn in Bern?"]}
            await client.call(PUT, {"tenant": "default", "memories": [given]})

            async def new_have() -> bool:
                return len(await with_cues(client)) == 10

            await until(new_have)
            await client.call(UPDATE, {"id": "m3", "changes": {"content": "Barge 3 was scrapped"}})

            async def again() -> bool:
                return "m3" in await with_cues(client) and "Barge 3 was scrapped" in model.asked

            await until(again)

            async def ended() -> bool:
                found = await progress(client)
                return found["without_cues"] == 0 and found["memories"] == 12

            await until(ended)
            found = await progress(client)
            assert (found["failures"], found["fault"], found["most_calls"]) == (0, None, 100)
            assert found["tokens"] > 0
    assert "Kim rows at dawn" not in model.asked
    assert {note: times for note, times in model.asked.items() if times > 1} == {
        "Barge 0 was sold to harbour 0": 2,
        "Barge 1 was sold to harbour 1": 2,
    }, "once for each tenant"


async def test_the_budget_of_the_day_outlives_a_restart(url: str, tmp_path: Path) -> None:
    model = CueModel()
    with upstream_thread(model) as upstream:
        for _ in range(2):
            async with service(url, tmp_path, upstream.url, cue_calls_per_day=2) as client:
                await put(client, range(30))

                async def spent(client: OperationClient = client) -> bool:
                    found = await progress(client)
                    return bool(found["calls"] == 2 and found["without_cues"] == 20)

                await until(spent)
                await asyncio.sleep(0.5)
                assert (await progress(client))["fault"] is None
                (check,) = [one for one in await checked(client) if one.name == "cues"]
                assert check.ok
                assert "20 memories without cues" in check.detail
                assert "2 of 2 calls today" in check.detail
            await asyncio.sleep(PACE.lease)
    assert len(model.asked) == 10


async def test_failures_are_shown_and_a_memory_without_usable_answers_is_left(url: str, tmp_path: Path) -> None:
    model = CueModel(broken="Barge 2 ")
    with upstream_thread(model) as upstream:
        async with service(url, tmp_path, upstream.url) as client:
            await put(client, range(5))

            async def ended() -> bool:
                return (await progress(client))["without_cues"] == 1

            await until(ended)
            asked = model.asked["Barge 2 was sold to harbour 2"]
            await put(client, range(5, 6))

            async def new() -> bool:
                return "m5" in await with_cues(client)

            await until(new)
            assert model.asked["Barge 2 was sold to harbour 2"] == asked, "not again for the same version"
    await asyncio.sleep(PACE.lease)
    async with service(url, tmp_path / "other", "http://127.0.0.1:9") as client:
        await put(client, range(5))

        async def failed() -> bool:
            return bool((await progress(client))["failures"] >= 3)

        await until(failed)
        found = await progress(client)
        assert "cannot be reached" in found["fault"]
        (check,) = [one for one in await checked(client) if one.name == "cues"]
        assert not check.ok
        assert "cannot be reached" in check.detail


@pytest.mark.parametrize("off", [{"base": None}, {"cue_calls_per_day": 0}], ids=str)
async def test_it_is_off_without_a_model_or_a_budget(url: str, tmp_path: Path, off: dict[str, Any]) -> None:
    model = CueModel()
    with upstream_thread(model) as upstream:
        async with service(url, tmp_path, **{"base": upstream.url, **off}) as client:
            await put(client, range(3))
            await asyncio.sleep(1.0)
            assert await progress(client) is None
            assert not any(check.name == "cues" for check in await checked(client))
    assert not model.asked


async def test_a_killed_service_goes_on_where_it_was(url: str, tmp_path: Path) -> None:
    model = CueModel(delay=0.15)
    with upstream_thread(model) as upstream:
        async with service(url, tmp_path, None) as client:
            await put(client, range(60))
        arguments = ["--data-dir", str(tmp_path), "admin", "worker", "--model", "openai/scripted"]
        arguments += ["--model-api-base", f"{upstream.url}/v1"]
        variables = environment(MEESEEKS_REDIS_URL=url, MEESEEKS_EMBEDDER="none", MEESEEKS_MODEL_API_KEY="k")
        out, log = tmp_path / "out", tmp_path / "log"
        running = Forked(arguments, tmp_path, variables, out=out, log=log, program="tests.support.hasty_cues")
        end = time.monotonic() + 60
        while len(model.asked) < 20 and time.monotonic() < end:
            assert running.poll() is None, log.read_text()
            await asyncio.sleep(0.02)
        running.kill()
        running.wait(10)
        before = model.asked.copy()
        async with service(url, tmp_path, upstream.url) as client:
            written = await with_cues(client)
            assert 0 < len(written) < 60

            async def all_have() -> bool:
                return len(await with_cues(client)) == 60

            await until(all_have)
            calls = (await progress(client))["calls"]
    again = {note for note, times in model.asked.items() if times > before[note]}
    assert again == {f"Barge {n} was sold to harbour {n}" for n in range(60) if f"m{n}" not in written}
    assert 12 <= calls <= 13, "those of the killed process count"


async def test_a_call_waits_for_a_quiet_moment_but_not_for_ever() -> None:
    activity, pace = Activity(), Pace(quiet=0.2, patience=0.6)
    began = time.monotonic()
    await activity.quiet(pace)
    assert time.monotonic() - began < 0.1
    activity.answered()
    await activity.quiet(pace)
    assert 0.15 < time.monotonic() - began < 0.5

    async def always_busy() -> None:
        while True:
            activity.answered()
            await asyncio.sleep(0.02)

    busy, began = asyncio.create_task(always_busy()), time.monotonic()
    await asyncio.sleep(0.01)
    await activity.quiet(pace)
    busy.cancel()
    assert 0.5 < time.monotonic() - began < 1.5
