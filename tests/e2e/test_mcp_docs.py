"""What docs/mcp.md and docs/skill.md give to copy does what they say."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from fastmcp import Client
from skills_ref import validate

from tests.support.mcp import TOOLS, call, texts
from tests.support.stack import ROOT, environment, running_stack
from tests.unit.docs.test_skill import blocks as skill_blocks
from worker.cli import app
from worker.mcp.scope import HEADERS, SHARED

COMMANDS = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)


def options(command: str) -> "dict[str, str | None]":
    """Long options of a command with their variables."""
    group: Any = typer.main.get_command(app)
    parameters = [one for one in group.all_loaded().commands[command].params if one.opts[-1].startswith("--")]
    return {one.opts[-1]: one.envvar for one in parameters}


def entry(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


async def test_the_entry_of_a_host_starts_a_server(tmp_path: Path) -> None:
    config = entry(blocks("mcp.md", "json")[0])
    (server,) = config["mcpServers"].values()
    assert server["env"] == {"MEESEEKS_USER": "oscar"}
    server["env"] |= environment(MEESEEKS_EMBEDDER="minilm", MEESEEKS_DATA_DIR=str(tmp_path / "data"), PATH=COMMANDS)
    server["cwd"] = str(tmp_path)
    server["keep_alive"] = False
    async with Client(config, init_timeout=50) as host:
        noted = await call(host, "remember", content="The harbour opens at six")
        assert await texts(host, "When does the harbour open?") == ["The harbour opens at six"]
        assert (await call(host, "forget", ids=[noted["id"]]))["forgotten"] == [noted["id"]]


TOKEN = "docs-token-0123456789"


def filled(text: str, url: str) -> str:
    """What a page gives to copy, for a service that is somewhere else and has another token."""
    named = text.replace("http://127.0.0.1:8787", url).replace("${MEESEEKS_TOKEN}", TOKEN)
    return named.replace("Bearer MEESEEKS_TOKEN", f"Bearer {TOKEN}")


async def test_the_running_service_serves_them_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variables = {"MEESEEKS_EMBEDDER": "minilm", "MEESEEKS_MODEL": "none", "MEESEEKS_HTTP_TOKEN": TOKEN}
    with running_stack(tmp_path, "up", "--http", "--http-port", "0", **variables) as stack:
        url = stack.http
        async with Client(entry(filled(blocks("mcp.md", "json")[1], url))) as host:
            assert {tool.name for tool in await host.list_tools()} == TOOLS
        (program,) = (filled(text, url) for text in blocks("mcp.md", "python"))
        code = compile(program, "mcp.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        await eval(code, {})
        assert "The harbour opens at six" in capsys.readouterr().out
        (shown,) = (text.partition("\n\n")[2] for text in skill_blocks("http"))
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            found = await client.post(f"{url}/v1/recall", json=json.loads(shown))
        assert found.status_code == 200, found.text
        assert found.json()["memories"] == []
        assert stack.stop() == 0
        assert "Traceback" not in stack.log


def test_every_header_is_explained() -> None:
    names = [name.decode().title() for name in (*HEADERS, SHARED)]
    assert not [name for name in names if f"`{name}" not in page("mcp.md")]


def test_every_option_and_variable_of_the_command_is_explained() -> None:
    documented = dict(re.findall(r"^\| `(--\w+)` \| `(\w+)` \|", page("mcp.md"), re.MULTILINE))
    assert documented == {option: variable for option, variable in options("mcp").items() if option != "--json"}


def test_the_skill_is_put_where_a_host_looks(tmp_path: Path) -> None:
    (line,) = blocks("skill.md", "sh")
    for _ in range(2):
        done = subprocess.run(
            ["/bin/sh", "-ec", line], cwd=tmp_path, env=environment(PATH=COMMANDS), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    folder = tmp_path / ".claude" / "skills" / "memory-search"
    assert validate(folder) == []
    (folder / "SKILL.md").write_text("---\nname: memory-search\n---\nmine\n", encoding="utf-8")
    refused = subprocess.run(
        [Path(sys.executable).with_name("meeseeks"), "skill", ".claude/skills", "--json"],
        cwd=tmp_path,
        env=environment(PATH=COMMANDS),
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert "--force" in json.loads(refused.stdout)["error"]
    assert "mine" in (folder / "SKILL.md").read_text(encoding="utf-8")
