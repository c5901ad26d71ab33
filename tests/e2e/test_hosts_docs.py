"""What docs/hosts.md gives to copy is run, in order, beside the real service."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.stack import ROOT, Stack, environment, running_stack

PAGE = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    http = {"MEESEEKS_HTTP_ENABLED": "true", "MEESEEKS_HTTP_PORT": str(free_port())}
    with running_stack(tmp_path_factory.mktemp("docs"), "up", "--model", "none", **http) as stack:
        yield stack


def shell(block: str, stack: Stack, folder: Path) -> "subprocess.CompletedProcess[str]":
    variables = {
        **stack.variables,
        "HOME": str(folder),
        "PATH": COMMANDS,
        "SHELL": "/bin/sh",
        "MEESEEKS_DATA_DIR": str(stack.folder / "data"),
    }
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder / "project",
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_is_given_to_copy_works(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    said = []
    for block in BLOCKS:
        for _ in range(3):  # on a busy machine a hook may be late, and is silent then
            done = shell(block, stack, tmp_path)
            if done.returncode == 0 and ("meeseeks-hook" not in block or "Alembic" in done.stdout):
                break
        assert done.returncode == 0, block + done.stdout + done.stderr
        said.append(done.stdout)
    assert len(said) == 5
    assert "all checks passed" in said[0]
    assert '"additionalContext": "<memory_context>' in said[1].replace('":"', '": "')
    assert "never by hand" in said[1]
    assert '+    "UserPromptSubmit": [' not in said[2], "already installed"
    assert "all checks passed" in said[4]
    assert not (tmp_path / "project/.claude/settings.json").exists()
    assert not (tmp_path / ".codex/hooks.json").exists()
