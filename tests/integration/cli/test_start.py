"""Commands load only what they need, so that they start fast."""

import subprocess
import sys

PROGRAM = """
import sys
from worker.cli import app
try:
    app(sys.argv[1:])
finally:
    print("loaded:", *sys.modules)
"""


def loaded_by(*arguments: str) -> set[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return set(found.stdout.rpartition("loaded:")[2].split())


def test_help_loads_no_module_of_a_command() -> None:
    modules = loaded_by("--help")
    assert {name for name in modules if name.startswith("worker")} == {"worker", "worker.cli", "worker.cli.common"}
    assert not modules & {"pydantic", "redis", "structlog", "numpy"}
