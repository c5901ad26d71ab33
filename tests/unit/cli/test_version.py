"""Both commands show the version of the distributions."""

import subprocess
import sys
import tomllib

import pytest
from typer.testing import CliRunner

from hooks.protocol.console import VERSION
from tests.support.paths import ROOT
from worker.cli import app


@pytest.mark.parametrize("project", [".", "hooks"])
def test_the_version_is_that_of_the_distribution(project: str) -> None:
    described = tomllib.loads((ROOT / project / "pyproject.toml").read_text(encoding="utf-8"))
    assert described["project"]["version"] == VERSION


def test_the_commands_show_it() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"meeseeks {VERSION}\n"
    hook = [sys.executable, "-I", "-S", str(ROOT / "hooks/shim.py"), "--version"]
    assert subprocess.run(hook, capture_output=True, check=True).stdout == f"meeseeks-hook {VERSION}\n".encode()
