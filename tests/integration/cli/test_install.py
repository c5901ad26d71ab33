"""`meeseeks hosts install` and `uninstall`: the settings files of hosts in a home and a project folder of their own."""

import asyncio
import json
import shutil
import stat
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hooks.protocol.wire import stored_user
from tests.support.command_line import CommandLine, command_line
from tests.support.hosts import event_of
from worker.adapters.local.host_files import HostFile
from worker.cli.hosts.host_setup import command_path
from worker.domain.errors import SettingsError
from worker.hosts import HOSTS, gobby, nexus

THEIRS = '{\n    "model": "opus",\n    "hooks": {"Stop": [ {"hooks": []} ]}\n}'
FILES = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json"}


@dataclass(frozen=True)
class Desk:
    """A user at work: his home, the folder of his project, and the command in it."""

    home: Path
    project: Path
    line: CommandLine

    def file(self, host: str, *, project: bool = False) -> Path:
        return (self.project if project else self.home) / FILES[host]

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def commands(self, host: str, *, project: bool = False) -> set[str]:
        """What the handlers in the file run or call."""
        hooks = json.loads(self.file(host, project=project).read_text("utf-8"))["hooks"]
        handlers = [handler for groups in hooks.values() for group in groups for handler in group["hooks"]]
        return {handler.get("command") or handler["url"] for handler in handlers}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    home, project = tmp_path / "home", tmp_path / "project"
    for folder in (home, project):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    return Desk(home, project, command_line(tmp_path))


@pytest.mark.parametrize("host", FILES)
@pytest.mark.parametrize("options", [[], ["--project"]], ids=["user", "project"])
@pytest.mark.parametrize("theirs", [THEIRS, "", "{}", '\ufeff{\r\n\t"a": 1\r\n}\r\n', None])
def test_it_is_installed_once_and_uninstalled_without_a_trace(
    desk: Desk, host: str, options: list[str], theirs: str | None
) -> None:
    path = desk.file(host, project=bool(options))
    if theirs is not None:
        desk.write(path, theirs)
        path.chmod(0o640)
    first = desk.line.json("install", host, *options)
    assert first["changed"]
    assert first["path"] == str(path)
    assert (first["backup"] is None) == (theirs is None)
    installed = path.read_bytes()
    document = json.loads(installed.decode("utf-8-sig"))
    assert {event.name for event in HOSTS[host].events if event.installed} <= set(document["hooks"])
    again = desk.line.json("install", host, *options)
    assert (again["changed"], again["diff"]) == (False, "")
    assert path.read_bytes() == installed
    if theirs is not None:
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert desk.line.json("uninstall", host, *options)["changed"]
    assert (path.read_bytes() if path.exists() else None) == (theirs.encode() if theirs is not None else None)
    assert [entry.name for entry in path.parent.iterdir()] == ([path.name] if theirs is not None else [])
    assert not desk.line.json("uninstall", host, *options)["changed"]


def test_what_was_changed_since_stays(desk: Desk) -> None:
    path = desk.write(desk.file("claude-code"), THEIRS)
    desk.line.ok("install", "claude-code")
    desk.write(path, path.read_text("utf-8").replace("opus", "sonnet"))
    desk.line.ok("uninstall", "claude-code")
    assert path.read_text("utf-8") == THEIRS.replace("opus", "sonnet")
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_dry_run_shows_the_change_and_makes_none(desk: Desk) -> None:
    path = desk.write(desk.file("claude-code"), THEIRS)
    shown = desk.line.ok("install", "claude-code", "--dry-run")
    assert f'+                        "command": "MEESEEKS_DATA_DIR={desk.line.folder}/data {command_path()}' in shown
    assert path.read_text("utf-8") == THEIRS
    desk.line.ok("install", "claude-code")
    before = path.read_bytes()
    assert desk.line.json("uninstall", "claude-code", "--dry-run")["diff"].count("\n-") > 10
    assert path.read_bytes() == before


def test_the_command_finds_this_installation_and_this_service(desk: Desk) -> None:
    desk.line.ok("install", "codex")
    (command,) = desk.commands("codex")
    assert command == f"MEESEEKS_DATA_DIR={desk.line.folder / 'data'} {command_path()} codex"
    assert Path(command_path()).is_file()
    desk.line.ok("install", "codex", "--deadline-ms", "2000")
    (command,) = desk.commands("codex")
    assert "MEESEEKS_TIMEOUT_MS=2000" in command
    text = desk.file("codex").read_text("utf-8")
    assert text.count('"timeout": 3') == len(HOSTS["codex"].events)


def test_the_user_is_stored_once_for_hooks_mcp_and_commands(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.line.ok("install", "codex", "--user", "oscar", "--dry-run")
    assert not (desk.line.folder / "data" / "user").exists()
    desk.line.ok("install", "codex", "--user", "oscar")
    assert stored_user(str(desk.line.folder / "data")) == "oscar"
    (entry,) = desk.line.json("mcp")["mcpServers"].values()
    assert entry["args"][-2:] == ["--user", "oscar"]
    desk.line.ok("install", "claude-code", "--http")
    assert any(one.endswith("/v1/hooks/claude-code?user=oscar") for one in desk.commands("claude-code"))
    desk.line.ok("uninstall", "claude-code")
    monkeypatch.setenv("MEESEEKS_USER", "bo")
    done = desk.line.run("doctor", "codex", "--quick")
    assert "MEESEEKS_USER says user 'bo', but 'oscar' is stored" in " ".join(done.stdout.split())
    assert "printable" in desk.line.json("install", "codex", "--user", "a\nb", exit_code=1)["error"]


MCP_FILES = {"claude-code": (".claude.json", ".mcp.json"), "codex": (".codex/config.toml", ".codex/config.toml")}


def server(path: Path) -> dict[str, Any]:
    text = path.read_text("utf-8")
    document = json.loads(text)["mcpServers"] if path.suffix == ".json" else tomllib.loads(text)["mcp_servers"]
    found: dict[str, Any] = document["meeseeks"]
    return found


@pytest.mark.parametrize("host", FILES)
def test_the_mcp_server_comes_and_goes_with_the_hooks(desk: Desk, host: str) -> None:
    user, project = desk.home / MCP_FILES[host][0], desk.project / MCP_FILES[host][1]
    theirs = '{"numStartups": 1}' if user.suffix == ".json" else 'model = "gpt"  # mine\n'
    desk.write(user, theirs)
    done = desk.line.json("install", host)
    assert (done["mcp"]["path"], done["mcp"]["changed"]) == (str(user), True)
    entry = {"command": command_path("meeseeks"), "args": ["--data-dir", str(desk.line.folder / "data"), "mcp"]}
    assert server(user) == entry
    assert Path(entry["command"]).is_file()
    assert desk.line.json("install", host)["mcp"]["changed"] is False
    assert desk.line.json("uninstall", host)["mcp"]["changed"] is True
    assert user.read_text("utf-8") == theirs
    desk.line.ok("install", host, "--project")
    assert server(project) == {"command": "meeseeks", "args": ["mcp"]}
    desk.line.ok("uninstall", host, "--project")
    assert not project.exists()
    assert desk.line.json("install", host, "--no-mcp")["mcp"] is None
    assert user.read_text("utf-8") == theirs


def test_the_mcp_server_reaches_what_the_hooks_reach(desk: Desk) -> None:
    variables = {"MEESEEKS_REDIS_URL": "redis://h:1", "MEESEEKS_DATA_DIR": str(desk.home / "mem")}
    CommandLine(desk.line.folder, variables).ok("install", "codex")
    assert server(desk.home / MCP_FILES["codex"][0])["env"] == {"MEESEEKS_REDIS_URL": "redis://h:1"}
    desk.line.ok("install", "claude-code", "--url", "https://memory.example/base/", "--user", "Ada Ö")
    assert server(desk.home / ".claude.json") == {
        "type": "http",
        "url": "https://memory.example/base/mcp",
        "headers": {"Authorization": "Bearer ${MEESEEKS_TOKEN:-}", "Meeseeks-User": "Ada%20%C3%96"},
    }


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "meeseeks", "args": ["mcp"], "env": {"MEESEEKS_USER": "bo"}},
        {"command": "meeseeks", "args": ["mcp", "--user", "bo"], "env": None},
        {"type": "http", "url": "http://127.0.0.1:8787/mcp", "headers": {"Meeseeks-User": "bo"}, "args": 1},
    ],
    ids=["variable", "option", "header"],
)
def test_an_mcp_server_of_another_user_is_found(desk: Desk, entry: dict[str, Any]) -> None:
    desk.line.ok("install", "claude-code", "--user", "ada")
    assert "MCP server" not in desk.line.run("doctor", "claude-code", "--quick").stdout
    desk.write(desk.project / ".mcp.json", json.dumps({"mcpServers": {"meeseeks": entry}}))
    checks = desk.line.json("doctor", "claude-code", "--quick", exit_code=1)["checks"]
    (detail,) = [check["detail"] for check in checks if check["name"] == "MCP server"]
    assert ".mcp.json says user 'bo', but 'ada' is stored" in detail


def test_a_file_of_mcp_servers_that_cannot_be_edited_does_not_keep_the_hooks_out(desk: Desk) -> None:
    path = desk.write(desk.home / ".claude.json", '{"mcpServers": {"meeseeks": {"command": "uvx"}}}')
    before = path.read_text("utf-8")
    done = desk.line.run("install", "claude-code")
    assert done.exit_code == 0
    assert "is another server; rename it first" in " ".join(done.stderr.split())
    assert desk.file("claude-code").is_file()
    desk.line.ok("uninstall", "claude-code")
    assert path.read_text("utf-8") == before


def test_the_entry_for_mcp_names_the_store_wherever_it_is_started(desk: Desk) -> None:
    (entry,) = desk.line.json("mcp")["mcpServers"].values()
    assert entry["args"] == ["--data-dir", str(desk.line.folder / "data"), "mcp"]
    (entry,) = desk.line.json("--data-dir", "mem", "mcp")["mcpServers"].values()
    assert entry["args"] == ["--data-dir", str(desk.project / "mem"), "mcp"]
    (desk.project / "meeseeks.toml").write_text('[service]\ndata_dir = "here"\n')
    (entry,) = desk.line.json("--config", "meeseeks.toml", "mcp")["mcpServers"].values()
    assert entry["args"][:2] == ["--config", str(desk.project / "meeseeks.toml")]


@pytest.mark.parametrize("host", FILES)
def test_uninstalling_one_service_leaves_the_hosts_of_another(desk: Desk, host: str) -> None:
    other = str(desk.line.folder / "other data")
    desk.line.ok("--data-dir", other, "install", host, "--user", "ada")
    before = desk.file(host).read_bytes()
    left = desk.line.run("setup", "--uninstall", "--yes").output
    assert desk.file(host).read_bytes() == before
    assert f"{host} stays connected to {other}" in " ".join(left.split())
    assert desk.line.json("--data-dir", other, "setup", "--uninstall", "--yes")["disconnected"] == [host]
    assert not desk.file(host).exists()


def test_a_projects_file_names_no_place_of_this_machine(desk: Desk) -> None:
    desk.line.ok("install", "claude-code", "--project")
    assert desk.commands("claude-code", project=True) == {"meeseeks-hook claude-code"}


def test_over_http_but_for_what_must_be_a_command(desk: Desk) -> None:
    desk.line.ok("install", "claude-code", "--http", "--deadline-ms", "1500")
    found = desk.commands("claude-code")
    assert "http://127.0.0.1:8787/v1/hooks/claude-code?deadline_ms=1500" in found
    assert len(found) == 2
    desk.line.ok("install", "claude-code", "--url", "https://memory.example/base/")
    assert "https://memory.example/base/v1/hooks/claude-code" in desk.commands("claude-code")


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["emacs"], {}, "unknown host 'emacs'"),
        (["codex", "--http"], {}, "Codex CLI supports only commands"),
        (["claude-code", "--url", "memory.example"], {}, "must start with http"),
        (["claude-code", "--http"], {"MEESEEKS_HTTP_PORT": "0"}, "no fixed HTTP address"),
        (["codex"], {"MEESEEKS_REDIS_URL": "redis://:secret@h:1"}, "contains a password"),
        (["codex"], {"MEESEEKS_REDIS_URL": "rediss://h:1"}, "neither TLS to Redis nor sentinels; use --http"),
        (["codex"], {"MEESEEKS_REDIS_URL": "redis+sentinel://h:1/m"}, "neither TLS to Redis nor sentinels"),
    ],
)
def test_what_cannot_work_is_refused(desk: Desk, arguments: list[str], variables: dict[str, str], said: str) -> None:
    line = CommandLine(desk.line.folder, variables)
    told = line.json("install", *arguments, exit_code=1)["error"]
    assert said in told
    assert "secret" not in told
    assert list(desk.home.iterdir()) == []


@pytest.mark.parametrize("host", FILES)
def test_a_broken_file_is_left_alone(desk: Desk, host: str) -> None:
    path = desk.write(desk.file(host), '{\n  "hooks": {,}\n}')
    told = desk.line.json("install", host, exit_code=1)["error"]
    assert told.startswith(f"{path}:2: not valid JSON")
    assert path.read_text("utf-8") == '{\n  "hooks": {,}\n}'
    desk.write(path, '{"hooks": {}}')
    desk.line.ok("install", host)
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in desk.line.json("uninstall", host, exit_code=1)["error"]


def test_a_second_copy_is_refused(desk: Desk) -> None:
    desk.line.ok("install", "claude-code")
    told = desk.line.json("install", "claude-code", "--project", exit_code=1)["error"]
    assert str(desk.file("claude-code")) in told
    assert "inject everything twice" in told
    desk.line.ok("install", "claude-code", "--project", "--force")


def test_a_plugin_that_brings_the_hooks_counts_as_a_copy(desk: Desk) -> None:
    desk.write(desk.file("claude-code"), '{"enabledPlugins": {"meeseeks@shop": true, "other@shop": true}}')
    assert "meeseeks@shop" in desk.line.json("install", "claude-code", exit_code=1)["error"]
    desk.write(desk.file("claude-code"), '{"enabledPlugins": {"meeseeks@shop": false}}')
    desk.line.ok("install", "claude-code")
    desk.write(desk.home / ".codex/config.toml", '[plugins."meeseeks@shop"]\nenabled = true\n')
    assert "meeseeks@shop" in desk.line.json("install", "codex", exit_code=1)["error"]
    desk.write(desk.home / ".codex/config.toml", "nonsense [")
    desk.line.ok("install", "codex")


def test_a_link_to_the_file_stays_one(desk: Desk) -> None:
    real = desk.write(desk.home / "dotfiles/claude.json", THEIRS)
    link = desk.file("claude-code")
    link.parent.mkdir()
    link.symlink_to(real)
    desk.line.ok("install", "claude-code")
    assert link.is_symlink()
    assert "meeseeks-hook" in real.read_text("utf-8")
    desk.line.ok("uninstall", "claude-code")
    assert real.read_text("utf-8") == THEIRS


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="nothing was changed"):
        HostFile(tmp_path / "file" / "settings.json").write("{}")


def test_a_file_that_is_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()
    with pytest.raises(SettingsError, match=r"settings\.json: .*; nothing was changed"):
        HostFile(tmp_path / "settings.json").read()


def test_hosts_without_a_settings_file_are_given_something_to_paste(desk: Desk) -> None:
    for host in (nexus, gobby):
        pasted = desk.line.json("install", host.PROFILE.name)["paste"]
        place = f'"env", ["MEESEEKS_DATA_DIR={desk.line.folder / "data"}", "meeseeks-hook", "nexus"]'
        there = place if host is nexus else place.replace("[", "").replace("]", "").replace("nexus", "gobby")
        assert there in pasted
        bare = '"meeseeks-hook", ["nexus"]' if host is nexus else '"meeseeks-hook", "gobby"'
        assert pasted.replace(there, bare) == host.PASTE
        assert (
            "remove the pasted snippet manually" in desk.line.json("uninstall", host.PROFILE.name, exit_code=1)["error"]
        )
    assert '"meeseeks-hook", "nexus"]' in desk.line.ok("install", "nexus")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
@pytest.mark.parametrize("works", [True, False])
def test_what_is_to_be_pasted_into_nexus_runs(tmp_path: Path, works: bool) -> None:
    """With a command in place of ours that repeats what it is given, and with none at all."""
    script = nexus.PASTE.partition("\n-- ")[0]
    (tmp_path / "memory.mjs").write_text(script)
    call = f"import run from './memory.mjs'; console.log(JSON.stringify(await run({json.dumps(_nexus())})))"
    (tmp_path / "call.mjs").write_text(call)
    done = subprocess.run(
        [str(shutil.which("node")), "call.mjs"],
        cwd=tmp_path,
        env={"PATH": str(_echo(tmp_path)) if works else ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    expected: Any = {"said": ["nexus"], "given": {"request": _nexus()["request"]}} if works else nexus.NOTHING
    assert json.loads(done.stdout) == expected


@pytest.mark.parametrize("works", [True, False])
async def test_what_is_to_be_pasted_into_gobby_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    monkeypatch.setenv("PATH", str(_echo(tmp_path)) if works else "")
    namespace: dict[str, Any] = {}
    exec(gobby.PASTE, namespace)
    answer = await asyncio.wait_for(namespace["meeseeks"]("memory_recall_relevant", "s", "p"), 30)
    if works:
        assert answer["said"] == ["gobby"]
        assert answer["given"]["prompt_text"] == "p"
        assert set(event_of("gobby/recall")) >= set(answer["given"])
    else:
        assert answer == gobby.NOTHING


def _nexus() -> dict[str, Any]:
    return event_of("nexus/pre-execution")


def _echo(folder: Path) -> Path:
    """A folder with a `meeseeks-hook` that answers with its arguments and its input."""
    program = folder / "meeseeks-hook"
    program.write_text(
        f"#!{sys.executable} -IS\nimport json, sys\n"
        "print(json.dumps({'said': sys.argv[1:], 'given': json.load(sys.stdin)}))\n"
    )
    program.chmod(0o755)
    return folder
