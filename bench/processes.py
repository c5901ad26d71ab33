"""The processes that are measured: Valkey, workers, the whole service, a scripted model server."""

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
READY_WITHIN_S = 120.0
STOP_WITHIN_S = 15.0


class BenchError(Exception):
    """A benchmark cannot be run as it is meant to."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="meeseeks-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_valkey() -> Iterator[str]:
    """The URL of an embedded Valkey that keeps nothing."""
    with scratch() as folder, EmbeddedValkey(folder, persist=False) as server:
        yield server.url


def environ(**more: str) -> dict[str, str]:
    """This process' variables without settings of the service, so that nobody's are measured; HTTP is off."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MEESEEKS_")}
    return {**plain, "MEESEEKS_HTTP_ENABLED": "false", **more}


@contextmanager
def running(command: Sequence[str], ready: str) -> Iterator[str]:
    """A program from its first words, up to the line `ready`, which come back, to its end by SIGTERM."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environ(MEESEEKS_LOG_LEVEL="error"), stdout=subprocess.PIPE, text=True
    )
    try:
        yield _words(process, ready)
    finally:
        _stop(process)


def _words(process: "subprocess.Popen[str]", ready: str) -> str:
    assert process.stdout is not None
    said: list[str] = []
    watchdog = Timer(READY_WITHIN_S, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            said.append(line)
            if line.rstrip("\n").endswith(ready):
                return "".join(said)
    finally:
        watchdog.cancel()
    raise BenchError(f"{process.args!r} did not get ready; its messages are above")


def _stop(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@contextmanager
def running_queue_worker(kind: str, url: str) -> Iterator[None]:
    """A worker process with nothing but a job that sleeps; see `bench.queue_worker`."""
    with running([sys.executable, "-m", "bench.queue_worker", kind, url], "ready"):
        yield


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that has run: milliseconds from its start to its end and of processor time, and what it printed."""

    wall: float
    processor: float
    output: bytes


def run_timed(command: Sequence[str], variables: Mapping[str, str], given: bytes = b"") -> Finished:
    """Run a program to its end; `given` is its input. Raises `BenchError` when it fails."""
    used, begun = _children_ms(), time.perf_counter()
    done = subprocess.run(command, input=given, capture_output=True, cwd=ROOT, env=variables, check=False)
    wall = (time.perf_counter() - begun) * 1000
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)} ended with exit code {done.returncode}: {done.stderr!r}")
    return Finished(wall, _children_ms() - used, done.stdout)


def _children_ms() -> float:
    """Processor time of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1000


@dataclass(frozen=True, slots=True)
class Service:
    """A running `meeseeks up`: the addresses of its queue and its HTTP, and the id of the process that answers."""

    url: str
    pid: int
    http: str | None = None

    def processor_ms(self) -> float | None:
        """Processor time that the process has used so far; `None` where the system does not say."""
        file = Path(f"/proc/{self.pid}/stat")
        if not file.is_file():
            return None
        # the name in parentheses may hold anything; user and system time are fields 14 and 15 of the line
        fields = file.read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_service(data_dir: Path, *options: str, settings: str = "") -> Iterator[Service]:
    """`meeseeks up` on a data folder, without HTTP unless the options say so.

    `settings` is further text of a settings file.
    """
    config = data_dir / "bench.toml"
    config.write_text(f"[service]\nhttp_enabled = false\n{settings}", encoding="utf-8")
    command = [sys.executable, "-m", "worker", "--data-dir", str(data_dir), "--config", str(config)]
    with running([*command, "up", "--json", *options], "}") as said:
        about = json.loads(said)
        yield Service(about["redis"], about["pid"], about.get("http"))


class ModelServer:
    """A model server that says what it is told to, as late as it is told to."""

    def __init__(self, url: str) -> None:
        self.url = url

    def control(self, **settings: Any) -> None:
        """`delay` in seconds; `mode` "ok" or "hang"."""
        body = json.dumps(settings).encode()
        request = urllib.request.Request(f"{self.url}/_control", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            answer.read()


@contextmanager
def running_model_server(answer: str) -> Iterator[ModelServer]:
    """A server of OpenAI's chat completions in a process of its own."""
    with running([sys.executable, "-m", "tests.support.upstream", "--answer", answer], "}") as said:
        yield ModelServer(json.loads(said)["url"])
