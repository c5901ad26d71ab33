"""A service that captures."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.operations import open_operations
from tests.support.valkey import forget
from worker.operations.client import OperationClient


@pytest.fixture
async def client(valkey: str, tmp_path: Path) -> AsyncIterator[OperationClient]:
    async with open_operations(valkey, tmp_path) as opened:
        yield opened
    forget(valkey)
