"""What happens to a run of the tests when one of them ends its process."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PASSING = "import pytest\n\n@pytest.mark.parametrize('n', range(5))\ndef test_passes(n):\n    pass\n"
CRASHING = f"import os\n{PASSING}\ndef test_crashes():\n    os.abort()\n"


@pytest.mark.slow
def test_a_run_ends_when_a_test_crashes_its_process_and_names_the_test(tmp_path: Path) -> None:
    """Its process must not be replaced: pytest-xdist 3.8 may then wait forever for tests that have already run."""
    for name, text in {"a": PASSING, "b": CRASHING, "c": PASSING, "d": PASSING}.items():
        (tmp_path / f"test_{name}.py").write_text(text, encoding="utf-8")
    own = ("-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest", "-p", "no:cacheprovider")
    line = [sys.executable, "-m", "pytest", *own, "-n", "2", "--no-loadscope-reorder", str(tmp_path)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 1, done.stdout
    assert "crashed while running" in done.stdout
    assert "test_b.py::test_crashes" in done.stdout.partition("short test summary")[2]
