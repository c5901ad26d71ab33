"""Processes under test: Valkey, workers, the service and a scripted model server."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

from worker.adapters.redis.embedded_valkey import EmbeddedValkey

ROOT = Path(__file__).parents[1]
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 15.0


class BenchError(Exception):
    """A benchmark cannot run."""


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="meeseeks-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_valkey() -> Iterator[str]:
    """Yield the URL of an embedded Valkey without persistence."""
    with scratch() as folder, EmbeddedValkey(folder, persist=False) as server:
        yield server.url


def environ(**more: str) -> dict[str, str]:
    """Return the environment without settings of the service and with HTTP off."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MEESEEKS_")}
    return {**plain, "MEESEEKS_HTTP_ENABLED": "false", **more}


@contextmanager
def running(command: Sequence[str], ready: str) -> Iterator[str]:
    """Run a program; yield its output up to a line that ends with `ready`, and stop it with SIGTERM."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environ(MEESEEKS_LOG_LEVEL="error"), stdout=subprocess.PIPE, text=True
    )
    try:
        yield _output_until(process, ready)
    finally:
        _stop(process)


def _output_until(process: "subprocess.Popen[str]", ready: str) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    watchdog = Timer(START_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            lines.append(line)
            if line.rstrip("\n").endswith(ready):
                return "".join(lines)
    finally:
        watchdog.cancel()
    raise BenchError(f"{process.args!r} did not start; see its output above")


def _stop(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@contextmanager
def running_queue_worker(kind: str, url: str) -> Iterator[None]:
    """Run a worker process whose only job sleeps; see `bench.queue_worker`."""
    with running([sys.executable, "-m", "bench.queue_worker", kind, url], "ready"):
        yield


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished process: wall and processor time in milliseconds, and its output."""

    wall: float
    processor: float
    output: bytes


def run_timed(command: Sequence[str], variables: Mapping[str, str], given: bytes = b"") -> Finished:
    """Run a program with the input `given`. Raise `BenchError` if it fails."""
    used, start = _children_ms(), time.perf_counter()
    done = subprocess.run(command, input=given, capture_output=True, cwd=ROOT, env=variables, check=False)
    wall = (time.perf_counter() - start) * 1000
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)} failed with exit code {done.returncode}: {done.stderr!r}")
    return Finished(wall, _children_ms() - used, done.stdout)


def _children_ms() -> float:
    """Return the processor time of finished child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1000


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds: all its resident memory, that of its own without files, and open descriptors."""

    resident_mb: float
    own_mb: float
    descriptors: int


@dataclass(frozen=True, slots=True)
class Service:
    """A running `meeseeks up`: the URLs of its queue and HTTP API, and its process id."""

    url: str
    pid: int
    http: str | None = None

    def processor_ms(self) -> float | None:
        """Return the processor time of the process so far; `None` if the system does not report it."""
        file = Path(f"/proc/{self.pid}/stat")
        if not file.is_file():
            return None
        # the name in parentheses may contain anything; user and system time are fields 14 and 15
        fields = file.read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def held(self) -> Held:
        """Return what the process holds now. Linux only."""
        process = Path(f"/proc/{self.pid}")
        fields = dict(line.split(":", 1) for line in (process / "status").read_text(encoding="utf-8").splitlines())
        resident, own = (int(fields[name].removesuffix(" kB")) / 1024 for name in ("VmRSS", "RssAnon"))
        return Held(resident, own, len(list((process / "fd").iterdir())))


@contextmanager
def running_service(data_dir: Path, *options: str, settings: str = "") -> Iterator[Service]:
    """Run `meeseeks up` on a data folder, without HTTP by default. `settings` extends its settings file."""
    config = data_dir / "bench.toml"
    config.write_text(f"[service]\nhttp_enabled = false\n{settings}", encoding="utf-8")
    command = [sys.executable, "-m", "worker", "--data-dir", str(data_dir), "--config", str(config)]
    with running([*command, "up", "--json", *options], "}") as lines:
        about = json.loads(lines)
        yield Service(about["redis"], about["pid"], about.get("http"))


class ModelServer:
    """A model server with scripted answers and delays."""

    def __init__(self, url: str) -> None:
        self.url = url

    def control(self, **settings: Any) -> None:
        """Set `delay` in seconds or `mode`, "ok" or "hang"."""
        body = json.dumps(settings).encode()
        request = urllib.request.Request(f"{self.url}/_control", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            answer.read()


@contextmanager
def running_model_server(answer: str) -> Iterator[ModelServer]:
    """Run an OpenAI-compatible chat completions server in its own process."""
    with running([sys.executable, "-m", "tests.support.upstream", "--answer", answer], "}") as lines:
        yield ModelServer(json.loads(lines)["url"])
