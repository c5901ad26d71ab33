"""The first five minutes with nothing but the wheel: the README's terminal, in a home folder where only a host was."""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.wheels import InstalledService

pytestmark = pytest.mark.timeout(600)

MOST_SECONDS = 300
FACT = "Login sessions expire after 30 minutes of inactivity"
QUESTION = "The login page needs a session timeout warning. After how many minutes of inactivity?"
ANYTHING = "..."
VARYING = (
    (r"pid \d+", "pid N"),
    (r"\b\d+ ms\b(: .*)?", "N ms"),
    (r"\d{4}-\d\d-\d\d( \d\d:\d\d UTC)?", "NOW"),
    (r"\[[a-z]{16}\]", "[KEY]"),
    (r"\b[0-9a-f]{32}\b", "ID"),
    (r"\b0\.\d\d\b", "0.NN"),
)
"""What differs from run to run. Probabilities change with the model that ships."""


def recorded() -> list[tuple[str, str]]:
    """Return the commands of the README's terminal with their output."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (terminal,) = re.findall(r"(?ms)^```console\n(.*?)^```", text)
    steps = [part.split("\n", 1) for part in re.split(r"(?m)^\$ ", terminal)[1:]]
    return [(command, output) for command, output in steps]


def settled(text: str, home: Path) -> str:
    text = text.replace(str(home), "~")
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return text.strip()


def is_as_recorded(said: str, expected: str) -> bool:
    """Return whether they are the same, where `...` stands for any lines."""
    lines = [".*" if line == ANYTHING else re.escape(line) for line in expected.splitlines()]
    return re.fullmatch("\n".join(lines), said, re.DOTALL) is not None


class Newcomer:
    """A person with a home folder, a shell, and the environment into which the wheel was installed."""

    def __init__(self, home: Path, programs: Path) -> None:
        self.home = home
        self._variables = {
            "HOME": str(home),
            "PATH": f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "LANG": "C.UTF-8",
        }

    def types(self, line: str, given: str = "") -> str:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.home,
            env=self._variables,
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout

    def prompts(self, text: str) -> str:
        """Send a prompt through the hook that is installed for it, as Claude Code would."""
        settings = json.loads((self.home / ".claude/settings.json").read_text(encoding="utf-8"))
        (group,) = settings["hooks"]["UserPromptSubmit"]
        event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": str(self.home), "prompt": text}
        answer = json.loads(self.types(group["hooks"][0]["command"], json.dumps(event)))
        assert answer["systemMessage"] == "Meeseeks: 1 memory"
        context: str = answer["hookSpecificOutput"]["additionalContext"]
        return context


def test_a_newcomer_is_served_within_five_minutes_and_leaves_nothing_behind(
    service: InstalledService, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    person = Newcomer(home, service.python.parent)
    started = time.monotonic()
    steps = recorded()
    names = [command.split()[1] for command, _ in steps]
    assert names == ["setup", "remember", "inject", "status", "why", "setup"]
    try:
        for command, output in steps:
            if command == steps[-1][0]:
                assert FACT in person.prompts(QUESTION)
            said = settled(person.types(command), home)
            assert is_as_recorded(said, settled(output, home)), f"{command}\n{said}"
    finally:
        person.types("meeseeks setup --uninstall --delete-memories --yes")
    assert list(home.rglob("*")) == [home / ".claude"]
    assert service.seconds + time.monotonic() - started < MOST_SECONDS
