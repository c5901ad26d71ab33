"""A disk without room, over every interface: reads go on, writes and the start are refused with the reason."""

from pathlib import Path

import pytest

from hooks.contract import Outcome
from hooks.queue import connect
from tests.support.command_line import command_line
from tests.support.http import calling
from tests.support.mcp import VARIABLES, call, client_of, told
from tests.support.service import fact
from tests.support.valkey import running_valkey, sync_redis
from worker.adapters.qdrant.edge import space
from worker.api.access import Policy
from worker.api.app import create_app
from worker.api.execution import OperationExecutor
from worker.bootstrap.core import open_core
from worker.domain.errors import MeeseeksError
from worker.mcp import ToolScope
from worker.operations.client import QueueState
from worker.operations.local_client import LocalOperationClient
from worker.operations.metrics import Metrics
from worker.operations.registry import INJECT, PUT, REMEMBER, SETTINGS_PATCH
from worker.settings.injection import Settings

KILN = fact("kiln", "The kiln door is blue")
NO_DISK_HAS = 1 << 62
REASON = "is full"
JSONL = {"Content-Type": "application/jsonl"}
QUESTION = "Which colour has the kiln door?"
REFUSED = ("remember Clay", "forget kiln", "import {file}", "up --no-http", "search x")


async def _unknown() -> QueueState | None:
    return None


async def test_a_running_service_reads_on_and_refuses_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.load({**VARIABLES, "MEESEEKS_EMBEDDER": "none"}, None, data_dir=tmp_path / "data")
    async with open_core(settings) as core:
        backend = LocalOperationClient(core.operations)
        app = create_app(OperationExecutor(backend, Metrics(), _unknown), Policy())
        await backend.call(PUT, {"tenant": "default", "memories": [KILN]})
        monkeypatch.setattr(space, "LEAST_FREE", NO_DISK_HAS)
        async with calling(app) as http:
            writes = [
                await http.post("/v1/memories", json={"memory": {"content": "Clay"}}),
                await http.patch("/v1/memories/kiln", json={"changes": {"importance": 1}}),
                await http.delete("/v1/memories/kiln"),
                await http.post("/v1/memories/import", content=b'{"content": "Clay"}\n', headers=JSONL),
            ]
            found = await http.post("/v1/recall", json={"query": "kiln door"})
            block = await http.post("/v1/inject", json={"session_id": "s", "message": QUESTION})
            listed = await http.get("/v1/memories")
        assert [answer.status_code for answer in writes[:3]] == [503] * 3
        assert [REASON in answer.text for answer in writes] == [True] * 4, writes[3].text
        assert [one["id"] for one in found.json()["memories"]] == ["kiln"]
        assert block.json()["outcome"] == Outcome.INJECTED
        assert len(listed.json()["memories"]) == 1
        async with client_of(backend, ToolScope()) as mcp:
            assert REASON in await told(mcp, "remember", content="Clay is stored in the cellar")
            assert REASON in await told(mcp, "forget", ids=["kiln"])
            assert len((await call(mcp, "recall", query="kiln door"))["memories"]) == 1
        monkeypatch.undo()
        assert (await backend.call(REMEMBER, {"memory": {"content": "Clay"}}))["stored"] == "created"


def test_commands_imports_and_the_start_say_that_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli, file = command_line(tmp_path), tmp_path / "clay.jsonl"
    file.write_text('{"content": "Clay is stored in the cellar"}\n', encoding="utf-8")
    cli.ok("remember", "The kiln door is blue", "--id", "kiln")
    monkeypatch.setattr(space, "LEAST_FREE", NO_DISK_HAS)
    for line in REFUSED:
        command = line.format(file=file).split()
        refused = cli.run(*command)
        said = " ".join(refused.output.split())
        assert refused.exit_code == 1, (command, said)
        assert REASON in said, command
        assert "free some space" in said, command
    monkeypatch.undo()
    assert "kiln" in cli.ok("list")


async def test_a_full_redis_costs_no_answer_and_says_what_it_cannot_save(tmp_path: Path) -> None:
    settings = Settings.load({**VARIABLES, "MEESEEKS_EMBEDDER": "none"}, None, data_dir=tmp_path / "data")
    with running_valkey() as server:
        redis = connect(server.url)
        async with open_core(settings, redis=redis, with_model=False) as core:
            backend = LocalOperationClient(core.operations)
            await backend.call(PUT, {"tenant": "default", "memories": [KILN]})
            change = {"agent_id": None, "values": {"max_items": 3}}
            ask = {"session_id": "s", "message": QUESTION}
            with sync_redis(server.url) as admin:
                admin.config_set("maxmemory", "1")
                admin.config_set("maxmemory-policy", "noeviction")
            result = await backend.call(INJECT, ask)
            with pytest.raises(MeeseeksError) as refused:
                await backend.call(SETTINGS_PATCH, change)
            with sync_redis(server.url) as admin:
                admin.config_set("maxmemory", "0")
            assert (await backend.call(SETTINGS_PATCH, change))["saved_version"] == 1
        await redis.aclose()
    assert result["outcome"] == Outcome.INJECTED
    assert "memory" in str(refused.value)
