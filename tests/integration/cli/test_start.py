"""Commands load only what they need, so that they start fast."""

import subprocess
import sys
from pathlib import Path

from tests.support.stack import environment

PROGRAM = """
import sys
from worker.cli import app
try:
    app(sys.argv[1:])
finally:
    print("loaded:", *sys.modules)
"""


def loaded_by(*arguments: str, ends_with: int = 0) -> set[str]:
    """Run a command in a process of its own and return the modules that it loaded."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == ends_with, found.stderr
    return set(found.stdout.rpartition("loaded:")[2].split())


def test_help_loads_no_module_of_a_command() -> None:
    modules = loaded_by("--help")
    assert {name for name in modules if name.startswith("worker")} == {
        "worker",
        *(f"worker.cli{one}" for one in ("", ".commands", ".common")),
    }
    assert not modules & {"pydantic", "redis", "structlog", "numpy"}


def test_a_command_that_asks_a_running_service_does_not_load_the_service() -> None:
    modules = loaded_by("--redis-url", "redis://127.0.0.1:1", "recall", "tea", ends_with=1)
    assert "worker.cli.memory.memories" in modules
    assert not modules & {"structlog", "numpy", "worker.bootstrap.core", "worker.injection.service", "worker.cli.local"}


def test_a_command_about_one_memory_does_not_load_readers_of_files() -> None:
    modules = loaded_by("--redis-url", "redis://127.0.0.1:1", "remember", "tea", ends_with=1)
    assert not modules & {"markdown_it", "yaml", "worker.transfer.formats", "worker.text.masking"}
    assert not {"rich", "worker.cli.terminal"} & modules, "colours are for a terminal"


ON_ITS_WAY = """
import gc, sys
from worker.__main__ import main
from worker.text.lexicon import phrase_file
try:
    main()
finally:
    print("collects:", gc.isenabled(), "leaves alone what is loaded:", gc.get_freeze_count() > 10_000)
    print("languages:", phrase_file.cache_info().currsize)
"""


def test_a_command_leaves_modules_out_of_collections_and_unused_languages_unread(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ON_ITS_WAY, "--data-dir", str(tmp_path), "remember", "The kiln cools"]
    variables = environment(MEESEEKS_EMBEDDER="none", MEESEEKS_MODEL="none")
    found = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
    assert "created" in found.stdout
    assert "collects: True leaves alone what is loaded: True" in found.stdout
    assert int(found.stdout.rpartition("languages:")[2]) <= 2
