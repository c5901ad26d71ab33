"""The benchmark of several workers."""

from pathlib import Path

import pytest
from rich.progress import Progress

from bench import workers
from bench.options import Options
from bench.processes import BenchError


def test_without_a_server_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QDRANT_URL", raising=False)
    with pytest.raises(BenchError, match="set QDRANT_URL to a Qdrant server"):
        workers.run(Options(tmp_path), Progress())
