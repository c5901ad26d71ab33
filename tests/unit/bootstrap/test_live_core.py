"""The serving core while another generation is adopted and while checks of a shared store fail."""

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from worker.bootstrap.live_core import LiveCore, Serving
from worker.domain.errors import SettingsError
from worker.ports.store import WholeStore
from worker.ports.store_record import StoreRecord


class Store:
    """Says which recipes it has, or fails with `fault`."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.closed = False
        self.asked = 0
        self.fault = fault

    async def record(self) -> StoreRecord:
        self.asked += 1
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        return StoreRecord(None, "bm25")

    async def aclose(self) -> None:
        self.closed = True


def serving(name: str, store: Store, *, usable: bool) -> Serving:
    return Serving(name, cast("WholeStore", store), None, usable, {}, decides=str)


class Sparse:
    config_hash = "bm25"


async def test_a_check_that_ends_after_a_switch_does_not_bring_the_closed_store_back() -> None:
    old, new = Store(), Store()
    go_on, started = asyncio.Event(), asyncio.Event()

    async def assemble(name: str, store: Any, embedder: Any) -> Serving:
        if store is old:
            started.set()
            await go_on.wait()
        return serving(name, store, usable=False)

    core = LiveCore(serving("old", old, usable=True), assemble, cast("Any", Sparse()))
    core.keep_fitting(0.0)
    await started.wait()
    await core.adopt("new", cast("WholeStore", new), None)
    await core.retired()
    go_on.set()
    await asyncio.sleep(0.05)
    assert (core.serving.name, old.closed, new.closed) == ("new", True, False)
    await core.aclose()
    assert new.closed


@pytest.mark.parametrize(
    ("fault", "event"),
    [
        (SettingsError("calibration.json: damaged"), "store_recipe_unchecked"),
        (OSError(5, "Input/output error"), "store_recipe_unchecked"),
        (KeyError("unforeseen"), "lasting_work_crashed"),
    ],
)
async def test_checks_go_on_after_any_error_and_say_it(fault: Exception, event: str) -> None:
    store = Store(fault)

    async def assemble(name: str, store: Any, embedder: Any) -> Serving:
        raise AssertionError("nothing changed")

    core = LiveCore(serving("memories", store, usable=False), assemble, cast("Any", Sparse()))
    with capture_logs() as logs:
        core.keep_fitting(0.0)
        async with asyncio.timeout(5):
            while store.asked < 3:
                await asyncio.sleep(0.01)
    assert [entry["event"] for entry in logs] == [event]
    await core.aclose()
    assert store.closed
