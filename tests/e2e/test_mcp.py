"""`meeseeks mcp` as a host starts it: a process that speaks the protocol on standard input and output."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tests.support.mcp import TOOLS, call, texts, told
from tests.support.stack import Stack, command, environment, put, running_stack

VECTORS = {"MEESEEKS_EMBEDDER": "minilm", "MEESEEKS_MODEL": "none"}


def line(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "worker", "--data-dir", str(folder / "data"), "mcp", *arguments]


def client(folder: Path, *arguments: str, **variables: str) -> "Client[Any]":
    """A client of a server process of its own."""
    started, *rest = line(folder, *arguments)
    env = environment(**VECTORS, **variables)
    return Client(StdioTransport(started, rest, env=env, cwd=str(folder), keep_alive=False), init_timeout=50)


async def wake(client: "Client[Any]") -> None:
    """Wait until a worker that was frozen says again that it lives."""
    while (await client.call_tool("recall", {"query": "harbour"}, raise_on_error=False)).is_error:
        await asyncio.sleep(0.1)


async def test_tools_of_a_running_service_and_of_none(tmp_path: Path) -> None:
    async with client(tmp_path, "--tenant", "acme", MEESEEKS_USER="oscar", MEESEEKS_SHARED="1") as oscar:
        async with client(tmp_path, "--tenant", "acme", "--user", "mia", "--agent", "planner") as mia:
            noted = await call(oscar, "remember", content="The harbour opens at six")
            found = await asyncio.gather(*(texts(one, "When does the harbour open?") for one in (oscar, mia)))
            assert found == [["The harbour opens at six"]] * 2
        with running_stack(tmp_path, "up", **VECTORS) as stack:
            assert await texts(oscar, "When does the harbour open?") == ["The harbour opens at six"]
            await put(stack.url, [{"id": "crane", "content": "The harbour's crane is closed"}])
            assert "The harbour's crane is closed" in await texts(oscar, "harbour crane")
            with stack.frozen():
                assert "does not start new jobs" in await told(oscar, "recall", query="harbour")
            await wake(oscar)
            assert (await call(oscar, "forget", ids=[noted["id"]]))["forgotten"] == [noted["id"]]
            stack.stop()
        assert await texts(oscar, "harbour crane") == ["The harbour's crane is closed"]


def asked(folder: Path, *messages: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """What the process answers, by the question's id; every line of its standard output must be of the protocol."""
    env = environment(**VECTORS, FASTMCP_LOG_LEVEL="nonsense")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(line(folder), env=env, cwd=folder, text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages))
        process.stdin.flush()
        said = list[dict[str, Any]]()
        while not said or said[-1].get("id") != messages[-1]["id"]:
            said.append(json.loads(process.stdout.readline()))
        rest, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    assert rest == ""
    assert "Traceback" not in errors
    assert all(message["jsonrpc"] == "2.0" for message in said)
    return {message["id"]: message["result"] for message in said if "id" in message}


def test_standard_output_holds_the_protocol_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"FASTMCP_LOG_LEVEL=\xff\xfe\n")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answers = asked(
        tmp_path,
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": {"name": "recall", "arguments": {"limit": "many"}}},
    )
    assert answers[1]["serverInfo"]["name"] == "meeseeks"
    assert "never instructions" in answers[1]["instructions"].replace("\n", " ")
    assert {tool["name"] for tool in answers[2]["tools"]} == TOOLS
    assert all(tool["inputSchema"]["type"] == "object" for tool in answers[2]["tools"])
    assert answers[3]["isError"] is True


def test_a_setting_that_is_wrong_ends_it_with_words(tmp_path: Path) -> None:
    (tmp_path / "meeseeks.toml").write_text("[service]\nembeder = 1\n", encoding="utf-8")
    done = command(tmp_path, "mcp")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "did you mean embedder?" in done.stderr


async def test_what_it_prints_for_a_host_starts_it(service: Stack) -> None:
    """The `service` of these tests keeps its memories in tenant acme."""
    told = service.command("mcp", "--tenant", "acme", "--user", "oscar", "--json")
    (entry,) = json.loads(told.stdout)["mcpServers"].values()
    assert entry["command"] == "meeseeks"
    arguments = ["-m", "worker", *entry["args"]]
    transport = StdioTransport(sys.executable, arguments, env=environment(**VECTORS), cwd=str(service.folder))
    async with Client(transport, init_timeout=50) as host:
        found = await texts(host, "When may the deployment to production happen?")
        assert "Deployments to production happen on Tuesdays after the stand-up" in found
    await transport.close()
