"""Commands without a service take turns at the store."""

import asyncio
import os
from pathlib import Path

import pytest

from worker.adapters.qdrant.edge.files import StoreLock
from worker.bootstrap.opening import store_path
from worker.cli import local
from worker.domain.errors import StoreLocked
from worker.operations.registry import HEALTH
from worker.settings.injection import Settings, load_settings


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    """The settings of a store that exists."""
    settings = load_settings(None, data_dir=tmp_path, embedder="none", model="none")
    async with local.open_local(settings, with_model=False):
        pass
    return settings


async def test_a_command_waits_until_another_one_has_closed_the_store(settings: Settings) -> None:
    lock = StoreLock.acquire(store_path(settings.service))
    asyncio.get_running_loop().call_later(0.5, lock.release)
    async with local.open_local(settings, with_model=False) as client:
        assert (await client.call(HEALTH, {}))["pid"] == os.getpid()


async def test_a_store_that_stays_open_is_refused_with_its_owner(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "LOCKED_S", 0.2)
    lock = StoreLock.acquire(store_path(settings.service))
    try:
        with pytest.raises(StoreLocked, match="in use by"):
            async with local.open_local(settings, with_model=False):
                pass
    finally:
        lock.release()
