"""The first minutes of a user of Claude Code: set up, remember, ask through the installed hook, why, and away again."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.service_managers import ScriptedManager
from tests.support.stack import command, environment

pytestmark = pytest.mark.timeout(240)

MINE = {"permissions": {"allow": ["Bash(ls)"]}}
FACT = "Login sessions expire after 30 minutes of inactivity"
QUESTION = "The login page needs a session timeout warning. After how many minutes of inactivity?"


def run(folder: Path, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = {"HOME": str(folder / "home"), "PATH": path, "MEESEEKS_MODEL": "none"}
    done = command(folder, *arguments, "--json", variables=variables, seconds=120)
    assert done.returncode == exit_code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def prompt(folder: Path, text: str) -> str:
    """Run the hook that is installed for prompts, as Claude Code would."""
    settings = json.loads((folder / "home/.claude/settings.json").read_text(encoding="utf-8"))
    (group,) = settings["hooks"]["UserPromptSubmit"]
    (handler,) = group["hooks"]
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": str(folder), "prompt": text}
    shell = ["sh", "-c", handler["command"]]
    done = subprocess.run(shell, input=json.dumps(event), env=environment(), capture_output=True, text=True, check=True)
    output: str = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""
    return output


def test_systemd_keeps_the_service_until_it_is_uninstalled(tmp_path: Path) -> None:
    """A service that runs already goes on; systemd has it from the next login on, which here is a restart."""
    systemd = ScriptedManager(tmp_path, "systemctl")
    started = run(tmp_path, "start")
    try:
        done = run(tmp_path, "setup", "--yes")
        assert (done["pid"], done["kept_by"], systemd.running) == (started["pid"], "systemd", [])
        run(tmp_path, "restart")
        (unit,) = (tmp_path / "home/.config/systemd/user").glob("*.service")
        assert systemd.running == [unit.name]
    finally:
        run(tmp_path, "setup", "--uninstall", "--yes")
    assert (systemd.running, list(unit.parent.rglob("*.service"))) == ([], [])


def test_a_newcomer_gets_memory_and_can_leave(tmp_path: Path) -> None:
    systemd = ScriptedManager(tmp_path, "systemctl")
    settings = tmp_path / "home/.claude/settings.json"
    settings.parent.mkdir(parents=True)
    before = json.dumps(MINE, indent=2) + "\n"
    settings.write_text(before, encoding="utf-8")
    (tmp_path / "home/.claude/CLAUDE.md").write_text("- Answer briefly\n", encoding="utf-8")
    assert "--yes" in run(tmp_path, "setup", exit_code=1)["error"]
    assert settings.read_text(encoding="utf-8") == before

    try:
        done = run(tmp_path, "setup", "--yes")
        assert done["works"] is True
        assert list(done["hosts"]) == ["claude-code"]
        (unit,) = (tmp_path / "home/.config/systemd/user").glob("*.service")
        assert "MEESEEKS_MODEL=none" in unit.read_text(encoding="utf-8")
        assert (done["kept_by"], systemd.running) == ("systemd", [unit.name])
        assert done["notes"] == [str(tmp_path / "home/.claude/CLAUDE.md")]
        again = run(tmp_path, "setup", "--yes")
        assert (again["pid"], again["works"]) == (done["pid"], True)
        restarted = run(tmp_path, "restart")
        status = run(tmp_path, "status")
        assert (status["pid"], status["kept_by"]) == (restarted["pid"], "systemd")
        assert restarted["pid"] != done["pid"]
        alone = run(tmp_path, "setup", "--yes", "--background")
        assert (alone["kept_by"], systemd.running, unit.exists()) == (None, [], False)

        run(tmp_path, "remember", FACT)
        assert FACT in prompt(tmp_path, QUESTION)
        why = run(tmp_path, "why", "session timeout")
        assert why["near"][0].startswith(f"{FACT} - injected")
    finally:
        left = run(tmp_path, "setup", "--uninstall", "--yes")
    assert (left["disconnected"], left["stopped"]) == (["claude-code"], alone["pid"])
    assert json.loads(settings.read_text(encoding="utf-8")) == MINE
    run(tmp_path, "status", exit_code=1)
    assert run(tmp_path, "list")["memories"][0]["content"] == FACT
