"""Builds the distributions from a copy of the checkout, and installs them into new environments."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

DROPPINGS = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", "build", "dist", "*.egg-info", "*_cache", ".hypothesis"
)
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MEESEEKS_"))}


@dataclass(frozen=True)
class Built:
    """The wheels and the source files before the build."""

    root: Path
    client: Path
    sdist: Path
    sources: frozenset[str]


@dataclass(frozen=True)
class InstalledService:
    """An environment with only the service's wheel and what that needs; `seconds` is how long installing took."""

    python: Path
    seconds: float


def run(command: Sequence[str | Path], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, env=CLEAN, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(project: Path, into: Path, kind: str) -> Path:
    run([sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", into, project], into.parent)
    return next(into.iterdir())


def make_environment(folder: Path) -> Path:
    """Return the Python of a new virtual environment."""
    venv.EnvBuilder(with_pip=False, symlinks=True, clear=True).create(folder)
    return folder / "bin/python"


def install(python: Path, *arguments: str | Path) -> None:
    """Install packages with uv, which takes a tenth of pip's time, or without it with pip."""
    uv = Path(sys.executable).with_name("uv")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check"]
    run([*([uv, "pip", "install", "-q", "--python", python] if uv.exists() else pip), *arguments], python.parent)


def built_in(base: Path) -> Built:
    """Build the client first, so that its build files could end up in the root wheel."""
    tree = base / "tree"
    shutil.copytree(ROOT, tree, ignore=DROPPINGS)
    sources = frozenset(path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file())
    client = build(tree / "hooks", base / "client", "--wheel")
    assert (tree / "hooks/build").exists()
    return Built(build(tree, base / "root", "--wheel"), client, build(tree, base / "sdist", "--sdist"), sources)


def installed_in(folder: Path, wheel: Path) -> Path:
    """Install a wheel and what it needs, in the locked versions, into a new environment; return its Python."""
    python = make_environment(folder / "env")
    install(python, "--constraint", constraints_in(folder), wheel)
    return python


def constraints_in(folder: Path) -> Path:
    """Write the locked versions of what the service needs into a folder; return the file."""
    lines = (ROOT / "requirements/service.txt").read_text(encoding="utf-8").splitlines()
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(line.split(" \\")[0] for line in lines if "==" in line), encoding="utf-8")
    return constraints
