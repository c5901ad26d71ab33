"""A service that captures."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hooks.queue import connect
from tests.support.valkey import forget
from worker.bootstrap.core import open_core
from worker.operations.client import OperationClient
from worker.operations.local_client import LocalOperationClient
from worker.settings.injection import load_settings


@pytest.fixture
async def client(valkey: str, tmp_path: Path) -> AsyncIterator[OperationClient]:
    settings = load_settings(None, data_dir=tmp_path, log_level="error", model="none")
    redis = connect(valkey)
    try:
        async with open_core(settings, redis=redis) as core:
            yield LocalOperationClient(core.operations)
    finally:
        await redis.aclose()
        forget(valkey)
