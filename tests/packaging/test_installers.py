"""The wheel as users install commands: with pipx and with uv, each with a command of its own on the path."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.wheels import CLEAN, Built, constraints_in, install, make_environment

pytestmark = pytest.mark.timeout(600)

TOOLS = ("pipx==1.18.4", "uv==0.13.9")
INSTALL = {
    "pipx": ["install", "--pip-args=--constraint={constraints}"],
    "uv": ["tool", "install", "--constraint={constraints}"],
}
REMOVE = {"pipx": ["uninstall"], "uv": ["tool", "uninstall"]}
FACT = "Login sessions expire after 30 minutes of inactivity"
QUESTION = "After how many minutes of inactivity do login sessions expire?"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `pipx` and `uv`."""
    python = make_environment(tmp_path_factory.mktemp("tools") / "env")
    try:
        install(python, *TOOLS)
    except AssertionError as error:
        pytest.skip(f"pip cannot install pipx and uv here: {str(error)[-200:]}")
    return python.parent


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def typed(words: list[str | Path], home: Path, variables: Mapping[str, str]) -> str:
    done = subprocess.run(words, cwd=home, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("tool", INSTALL)
def test_the_commands_are_installed_work_and_are_removed(
    built: Built, tools: Path, cache: Path, tool: str, tmp_path: Path
) -> None:
    commands = tmp_path / ".local/bin"
    path = os.pathsep.join([str(commands), str(tools), "/usr/bin", "/bin"])
    variables = {**CLEAN, "HOME": str(tmp_path), "PATH": path, "UV_CACHE_DIR": str(cache)}
    python = shutil.which("python3", path=f"{tools}")
    options = [word.format(constraints=constraints_in(tmp_path)) for word in INSTALL[tool]]
    typed([tools / tool, *options, "--python", str(python), built.root], tmp_path, variables)
    assert typed(["meeseeks", "--version"], tmp_path, variables).startswith("meeseeks ")
    assert typed(["meeseeks-hook", "--version"], tmp_path, variables).startswith("meeseeks-hook ")
    typed(["meeseeks", "remember", FACT], tmp_path, variables)
    assert FACT in typed(["meeseeks", "inject", QUESTION], tmp_path, variables)
    typed([tools / tool, *REMOVE[tool], "memory-meeseeks"], tmp_path, variables)
    assert not list(commands.glob("meeseeks*"))
