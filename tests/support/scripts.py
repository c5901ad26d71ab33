"""Small programs for tests of automations."""

import sys
from pathlib import Path

SAYS = '{"fire": true, "enrich": {"notes": ["said"]}}'


def script(folder: Path, name: str, body: str, *, interpreter: str = f"{sys.executable} -IS") -> Path:
    """An executable file."""
    path = folder / name
    path.write_text(f"#!{interpreter}\n{body}\n", encoding="utf-8")
    path.chmod(0o700)
    return path


def shell(folder: Path, name: str, body: str) -> Path:
    """An executable file for the shell."""
    return script(folder, name, body, interpreter="/bin/sh")
