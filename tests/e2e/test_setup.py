"""The first minutes of a user of Claude Code: set up, remember, ask through the installed hook, why, and away again."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.command_line import command_line
from tests.support.service_managers import ScriptedManager
from tests.support.stack import command, environment

MINE = {"permissions": {"allow": ["Bash(ls)"]}}
FACT = "Login sessions expire after 30 minutes of inactivity"
QUESTION = "The login page needs a session timeout warning. After how many minutes of inactivity?"


def variables_of(folder: Path) -> dict[str, str]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(folder / "home"), "PATH": path, "MEESEEKS_MODEL": "none"}


def look(folder: Path, *arguments: str, exit_code: int = 0) -> Any:
    """Run a command that sets nothing up, in this process: that spares loading it."""
    return command_line(folder, MEESEEKS_EMBEDDER="minilm", **variables_of(folder)).json(
        *arguments, exit_code=exit_code
    )


def run(folder: Path, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    done = command(folder, *arguments, "--json", variables=variables_of(folder), seconds=120)
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
    output = json.loads(done.stdout or "{}").get("hookSpecificOutput", {"additionalContext": ""})
    context: str = output["additionalContext"]
    return context


def tree(folder: Path) -> dict[str, str]:
    """The folders and files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_text("utf-8") if path.is_file() else "" for path in folder.rglob("*")
    }


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
    home = tmp_path / "home"
    settings = home / ".claude/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(MINE, indent=2) + "\n", encoding="utf-8")
    (home / ".claude/CLAUDE.md").write_text("- Answer briefly\n", encoding="utf-8")
    before = tree(home)
    assert "--yes" in run(tmp_path, "setup", exit_code=1)["error"]
    assert tree(home) == before

    try:
        done = run(tmp_path, "setup", "--yes", "--user", "ada")
        assert done["works"] is True
        assert list(done["hosts"]) == ["claude-code"]
        assert 0 < done["ms"]["claude-code"] < 2000
        (unit,) = (home / ".config/systemd/user").glob("*.service")
        assert "MEESEEKS_MODEL=none" in unit.read_text(encoding="utf-8")
        assert (done["kept_by"], systemd.running) == ("systemd", [unit.name])
        assert (done["notes"], done["imported"]) == ([str(home / ".claude/CLAUDE.md")], None)
        assert look(tmp_path, "list")["memories"] == []
        server = json.loads((home / ".claude.json").read_text(encoding="utf-8"))["mcpServers"]["meeseeks"]
        assert server["args"] == ["--data-dir", str(tmp_path / "data"), "mcp"]

        again = run(tmp_path, "setup", "--yes", "--import")
        assert (again["pid"], again["works"]) == (done["pid"], True)
        assert again["imported"].startswith("1 created")
        assert run(tmp_path, "setup", "--yes", "--import")["imported"] is None

        look(tmp_path, "remember", FACT)
        assert FACT in prompt(tmp_path, QUESTION)
        why = look(tmp_path, "why", "session timeout")
        assert why["near"][0].startswith(f"{FACT} - injected")

        alone = run(tmp_path, "setup", "--yes", "--background")
        assert (alone["kept_by"], systemd.running, unit.exists()) == (None, [], False)
    finally:
        left = run(tmp_path, "setup", "--uninstall", "--yes")
    assert (left["disconnected"], left["stopped"]) == (["claude-code"], alone["pid"])
    assert tree(home) == before
    assert left["kept"] == str(tmp_path / "data")
    look(tmp_path, "status", exit_code=1)
    assert FACT in [one["content"] for one in look(tmp_path, "list")["memories"]]
    gone = run(tmp_path, "setup", "--uninstall", "--delete-memories", "--yes")
    assert (gone["kept"], (tmp_path / "data").exists()) == (None, False)


def test_it_asks_in_a_terminal_and_leaves_nothing_behind(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "CLAUDE.md").write_text("- Deploys happen on Tuesdays\n", encoding="utf-8")
    before = tree(home)
    folder = {"HOME": str(home), "MEESEEKS_DATA_DIR": str(home / ".local/share/meeseeks"), "MEESEEKS_MODEL": "none"}

    def talk(answers: str, *arguments: str, exit_code: int = 0) -> str:
        """Run `meeseeks` with a terminal in which somebody types."""
        keyboard, terminal = pty.openpty()
        try:
            os.write(keyboard, answers.encode())
            done = subprocess.run(
                [sys.executable, "-m", "worker", *arguments],
                cwd=home,
                env=environment(**folder),
                stdin=terminal,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=90,
                check=False,
            )
        finally:
            os.close(keyboard)
            os.close(terminal)
        assert done.returncode == exit_code, done.stdout
        return done.stdout

    assert "start the service in the background" in talk("n\n", "setup", "--background", exit_code=1)
    assert tree(home) == before
    try:
        said = talk("\ny\n", "setup", "--background")
        assert re.search(r"^hook works: \d+ ms", said, re.MULTILINE)
        assert "+ preference · undated · everybody · Deploys happen on Tuesdays" in said
        assert "imported: 1 created" in said
        (memory,) = json.loads(talk("", "list", "--json"))["memories"]
        assert memory["content"] == "Deploys happen on Tuesdays"
        talk("", "forget", memory["id"])
    finally:
        left = talk("y\n", "setup", "--uninstall")
    assert "which holds no memories" in left
    assert left.endswith("nothing is left\n")
    assert tree(home) == before
