"""The operations of a whole service in the test's process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hooks.queue import connect
from worker.bootstrap.core import open_core
from worker.operations.client import OperationClient
from worker.operations.local_client import LocalOperationClient
from worker.settings.injection import load_settings


@asynccontextmanager
async def open_operations(url: str, folder: Path, **settings: Any) -> AsyncIterator[OperationClient]:
    """Open a service with its store in `folder` and the rest in a Redis; without another `model`, it has none."""
    loaded = load_settings(None, **({"data_dir": folder, "log_level": "error", "model": "none"} | settings))
    redis = connect(url)
    try:
        async with open_core(loaded, redis=redis) as core:
            yield LocalOperationClient(core.operations)
    finally:
        await redis.aclose()


def scripted(base: str) -> dict[str, Any]:
    """Return the settings of a chat model at `base`."""
    return {"model": "openai/scripted", "model_api_base": f"{base}/v1", "model_api_key": "k"}
