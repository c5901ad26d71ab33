"""Run systems in processes of their own, on the same texts, vectors and queries."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from worker.adapters.qdrant.bm25 import Bm25Encoder

from ..processes import ROOT, BenchError, environ
from . import ours
from .exchange import QUERIES, READY, TEXTS, Found, Texts, save_sparse
from .systems import PEERS

PYTHON = ROOT / "build" / "peers" / "bin" / "python"
VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"


@dataclass(frozen=True, slots=True)
class Filled:
    """How many texts a system stored in how long."""

    stored: int
    seconds: float
    resident_mb: float

    @property
    def rate(self) -> float:
        return self.stored / self.seconds


@dataclass(frozen=True, slots=True)
class Searched:
    """What a new process found; `first_s` is from its start to its first answer."""

    found: tuple[Found, ...]
    first_s: float
    resident_mb: float


def versions() -> dict[str, str]:
    """Return the versions of the peers that `make peers` has installed, by kind."""
    found = {}
    for kind, peer in PEERS.items():
        command = [str(PYTHON), "-I", "-c", VERSION, peer.distribution]
        done = subprocess.run(command, capture_output=True, text=True, check=False) if PYTHON.is_file() else None
        if done and done.returncode == 0:
            found[kind] = done.stdout.strip()
    return found


def write(folder: Path, given: Texts, asked: Texts, *, keywords: bool) -> None:
    """Write what the systems are given into a folder; `keywords` adds the BM25 vectors."""
    folder.mkdir(parents=True, exist_ok=True)
    given.save(folder, TEXTS)
    asked.save(folder, QUERIES)
    if keywords:
        encoder = Bm25Encoder()
        vectors = {text: encoder.passage(text) for text in (*given.texts, *asked.texts)}
        save_sparse(folder, {text: (list(one.indices), list(one.values)) for text, one in vectors.items()})


def fill(kind: str, folder: Path, seconds: float) -> Filled:
    return Filled(**_run(_command(kind, "fill", folder, 0, seconds))[0])


def search(kind: str, folder: Path, most: int) -> Searched:
    found, first_s = _run(_command(kind, "search", folder, most, 1e9))
    pairs = zip(found["found"], found["spent"], strict=True)
    return Searched(
        tuple(Found(tuple(map(tuple, hits)), spent) for hits, spent in pairs), first_s, found["resident_mb"]
    )


def _command(kind: str, phase: str, folder: Path, most: int, seconds: float) -> list[str]:
    if kind == ours.KIND:
        program = [sys.executable, "-m", "bench.peers.ours"]
    else:
        program = [str(PYTHON), "-m", "bench.peers.process", kind]
    return [*program, phase, str(folder), str(most), str(seconds)]


def _run(command: Sequence[str]) -> tuple[dict[str, Any], float]:
    """Return what a process printed last, and the seconds until it was ready."""
    start, ready, last = time.perf_counter(), 0.0, ""
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(command, cwd=ROOT, env=environ(), stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == READY:
                ready = time.perf_counter() - start
            last = line
        if process.wait() != 0:
            errors.seek(0)
            raise BenchError(
                f"{' '.join(command)} failed with exit code {process.returncode}:\n{errors.read()[-2000:]}"
            )
    answer: dict[str, Any] = json.loads(last)
    return answer, ready
