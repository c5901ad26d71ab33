"""Hosts with the real service: hooks installed by the command, run as the host would, and looked at by the doctor."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import command_line
from tests.support.hosts import event_of
from tests.support.ports import free_port
from tests.support.stack import FACTS, Stack, command, environment, put, running_stack
from worker.cli.hosts.host_setup import command_path


@dataclass(frozen=True)
class Desk:
    """A user's home and the service that runs beside it."""

    home: Path
    stack: Stack

    @property
    def variables(self) -> dict[str, str]:
        return {**self.stack.variables, "MEESEEKS_EMBEDDER": "minilm", "HOME": str(self.home), "SHELL": "/bin/sh"}

    def meeseeks(self, *arguments: str, status: int | None = 0, **variables: str) -> Any:
        """What a command prints as JSON, in this process: that spares loading it."""
        done = command_line(self.stack.folder, **{**self.variables, **variables}).run(*arguments, "--json")
        assert status in (None, done.exit_code), done.output
        return json.loads(done.stdout)

    def process(self, *arguments: str) -> Any:
        """What a command prints as JSON, in a process of its own."""
        done = command(self.stack.folder, *arguments, "--json", variables=self.variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def findings(self, *arguments: str, status: int = 0, **variables: str) -> dict[str, tuple[bool, str]]:
        told = self.meeseeks("doctor", *arguments, status=status, **variables)
        assert told["healthy"] is (status == 0)
        return _by_name(told)

    def healthy(self, host: str, **variables: str) -> dict[str, tuple[bool, str]]:
        """The findings of the doctor, who is asked again where a busy machine was late."""
        for _ in range(2):
            told = self.meeseeks("doctor", host, status=None, **variables)
            if told["healthy"]:
                break
        return self.findings(host, **variables) if not told["healthy"] else _by_name(told)

    def hooks(self, file: str) -> dict[str, Any]:
        hooks: dict[str, Any] = json.loads((self.home / file).read_text("utf-8"))["hooks"]
        return hooks


def _by_name(told: Any) -> dict[str, tuple[bool, str]]:
    return {check["name"]: (check["ok"], check["detail"]) for check in told["checks"]}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    http = {"MEESEEKS_HTTP_ENABLED": "true", "MEESEEKS_HTTP_PORT": str(free_port())}
    with running_stack(tmp_path_factory.mktemp("hosts"), "up", "--model", "none", **http) as stack:
        yield stack
        assert "Traceback" not in stack.log


@pytest.fixture
def desk(stack: Stack, tmp_path: Path) -> Desk:
    return Desk(tmp_path, stack)


def run(line: str, event: dict[str, Any], home: Path) -> "subprocess.CompletedProcess[str]":
    """A hook's command as hosts run it."""
    return subprocess.run(
        ["sh", "-c", line],
        env=environment(HOME=str(home)),
        input=json.dumps(event),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(("host", "file"), [("claude-code", ".claude/settings.json"), ("codex", ".codex/hooks.json")])
async def test_what_is_installed_injects(desk: Desk, host: str, file: str) -> None:
    await put(desk.stack.url, FACTS, tenant="default")
    await asyncio.to_thread(desk.process, "install", host)
    line = desk.hooks(file)["UserPromptSubmit"][0]["hooks"][0]["command"]
    event = event_of(f"{host}/user-prompt-submit.minimal")
    for session, expected in (("a", True), ("a", False), ("b", True)):
        assert injects(line, {**event, "session_id": f"{host}-{session}"}, desk.home, again=expected) is expected


def injects(line: str, event: dict[str, Any], home: Path, *, again: bool) -> bool:
    """Whether the hook brings the fact; a busy machine may be late once or twice, and a late hook is silent."""
    for _ in range(3 if again else 1):
        done = run(line, event, home)
        assert (done.returncode, done.stderr) == (0, "")
        if "Alembic and never by hand" in done.stdout:
            return True
    return False


@pytest.mark.parametrize("host", ["claude-code", "codex", "nexus", "gobby"])
def test_the_doctor_finds_a_host_in_good_health(desk: Desk, host: str) -> None:
    if host in ("claude-code", "codex"):
        desk.meeseeks("install", host)
        assert _by_name(desk.process("doctor", host, "--quick"))["installed"][0]
    found = desk.healthy(host)
    ok, told = found["command"]
    assert ok
    assert "ms, then" in told
    assert found["command, nothing to inject"] == (True, "nothing was injected")


def test_the_doctor_finds_a_host_that_calls_the_service_itself_in_good_health(desk: Desk) -> None:
    desk.meeseeks("install", "claude-code", "--http")
    found = desk.healthy("claude-code")
    assert all(ok for ok, _ in found.values()), found
    assert {"url", "url, nothing to inject", "command"} <= set(found)


def test_over_http_a_hook_is_answered_natively_and_what_it_brings_counts_as_shown(desk: Desk) -> None:
    line = f"MEESEEKS_URL=http://127.0.0.1:{desk.stack.variables['MEESEEKS_HTTP_PORT']} {command_path()} claude-code"
    asyncio.run(put(desk.stack.url, FACTS, tenant="default"))
    event = {**event_of("claude-code/user-prompt-submit.minimal"), "session_id": "over-http"}
    assert injects(line, event, desk.home, again=True)
    assert not injects(line, event, desk.home, again=False)


def test_the_doctor_runs_what_a_plugin_brings(desk: Desk) -> None:
    """The plugin names no place, so the command is looked for on the `PATH`, and the service where it is by default."""
    (desk.home / ".claude").mkdir()
    (desk.home / ".claude/settings.json").write_text('{"enabledPlugins": {"meeseeks@meeseeks": true}}')
    ok, told = desk.findings("claude-code", status=1, PATH="/usr/bin:/bin")["command"]
    assert not ok
    assert "not on the PATH of the host" in told
    path = f"{Path(command_path()).parent}:/usr/bin:/bin"
    found = desk.healthy("claude-code", PATH=path, MEESEEKS_DATA_DIR=str(desk.stack.folder / "data"))
    assert found["installed"] == (True, f"meeseeks@meeseeks ({desk.home}/.claude/settings.json)")
    assert found["command"][0], found


def test_the_doctor_finds_an_address_where_nobody_is(desk: Desk) -> None:
    desk.meeseeks("install", "claude-code", "--url", "http://127.0.0.1:9")
    ok, told = desk.findings("claude-code", status=1)["url"]
    assert not ok
    assert "the URL is unreachable: ConnectError" in told


def test_the_doctor_says_what_is_missing(desk: Desk) -> None:
    assert desk.findings("codex", status=1)["installed"] == (False, "not installed; run `meeseeks hosts install codex`")
    desk.meeseeks("install", "codex")
    file = desk.home / ".codex/hooks.json"
    hooks = json.loads(file.read_text("utf-8"))
    del hooks["hooks"]["PostCompact"]
    file.write_text(json.dumps(hooks))
    (desk.home / ".codex/config.toml").write_text("[features]\nhooks = false\n")
    found = desk.findings("codex", "--quick", status=1)
    assert found["events"] == (False, "missing: PostCompact; run `meeseeks hosts install codex` again")
    assert found["hooks are on"] == (False, f"{desk.home}/.codex/config.toml: features.hooks = false")


def test_the_doctor_sees_what_a_login_shell_prints(desk: Desk) -> None:
    desk.meeseeks("install", "codex")
    (desk.home / ".profile").write_text("echo Welcome back\n")
    ok, told = desk.findings("codex", status=1)["command"]
    assert not ok
    assert "did not print JSON but 'Welcome back" in told
    assert "check whether your shell profile prints this" in told


def test_the_doctor_sees_a_command_that_is_not_there(desk: Desk) -> None:
    desk.meeseeks("install", "claude-code")
    file = desk.home / ".claude/settings.json"
    line = desk.hooks(".claude/settings.json")["UserPromptSubmit"][0]["hooks"][0]["command"]
    file.write_text(file.read_text("utf-8").replace(line, "no-such-folder/meeseeks-hook claude-code"))
    ok, told = desk.findings("claude-code", status=1)["command"]
    assert not ok
    assert "not on the PATH of the host" in told


def test_the_doctor_lets_the_command_say_what_its_trouble_is(desk: Desk) -> None:
    """The command is told another data folder than the service's."""
    desk.meeseeks("install", "claude-code")
    file = desk.home / ".claude/settings.json"
    data = str(desk.stack.folder / "data")
    file.write_text(file.read_text("utf-8").replace(data, str(desk.home)))
    ok, told = desk.findings("claude-code", status=1)["command"]
    assert not ok
    assert (
        "the test memory was not injected; debug output: meeseeks-hook: no memory: the service is not running" in told
    )


def test_without_a_service_the_doctor_says_so(tmp_path: Path) -> None:
    done = command(tmp_path, "doctor", "nexus", "--json", variables={"HOME": str(tmp_path)})
    assert done.returncode == 1
    assert json.loads(done.stdout)["checks"] == [
        {"name": "service", "ok": False, "detail": "not running; start it with `meeseeks start`"}
    ]


def test_an_unknown_host_is_told_which_there_are(tmp_path: Path) -> None:
    done = command(tmp_path, "doctor", "emacs", "--json", variables={"HOME": os.devnull})
    assert done.returncode == 1
    assert "the hosts are claude-code, codex, gobby, nexus" in json.loads(done.stdout)["error"]
