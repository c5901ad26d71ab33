"""The tools as a real client sees them, on a real store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastmcp import Client

from worker.bootstrap.core import open_core
from worker.mcp import Backend, ToolScope
from worker.mcp.environment import prepare_environment
from worker.mcp.server import make_server
from worker.operations.local_client import LocalOperationClient
from worker.settings.injection import Settings

TOOLS = frozenset({"recall", "list", "remember", "update", "forget", "list_without_cues", "add_cues"})

VARIABLES = {"MEESEEKS_EMBEDDER": "minilm", "MEESEEKS_MODEL": "none"}


@asynccontextmanager
async def open_store(folder: Path, **variables: str) -> AsyncIterator[Backend]:
    """A service in this process, on a store below `folder`."""
    settings = Settings.load({**VARIABLES, **variables}, None, data_dir=folder / "data")
    async with open_core(settings) as core:
        yield LocalOperationClient(core.operations)


def client_of(backend: Backend, whose: ToolScope) -> "Client[Any]":
    """A client in this process; over the memory transport, with everything else as over the wire."""
    prepare_environment({})
    return Client(make_server(backend, lambda: whose))


async def call(client: "Client[Any]", tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool answers that must go well."""
    result = await client.call_tool(tool, arguments)
    assert result.structured_content is not None
    return result.structured_content


async def told(client: "Client[Any]", tool: str, **arguments: Any) -> str:
    """What a tool says that must fail."""
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    assert result.is_error
    assert result.structured_content is None
    (part,) = result.content
    assert part.type == "text"
    text: str = part.text
    assert "Traceback" not in text
    return text


async def texts(client: "Client[Any]", query: str, **arguments: Any) -> list[str]:
    """What a recall finds."""
    return [memory["text"] for memory in (await call(client, "recall", query=query, **arguments))["memories"]]
