"""Settings that hold for every test."""

import gc
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
import structlog
from httpx._transports import default as httpx_transports
from httpx2._transports import default as httpx2_transports
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from worker.bootstrap.process_memory import give_back_freed_memory

# Tests start many processes, and each would compile every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Collections while thousands of tests are imported cost as much as the imports, and nearly all of it is kept.
gc.disable()

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

give_back_freed_memory()  # as a service does: each event loop of a test has threads, and each of these its heap

settings.register_profile(
    "suite", deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fuzz", settings.get_profile("suite"), max_examples=5_000, derandomize=False)
settings.load_profile("suite")

PAGES, UNIT = "tests/browser/", "tests/unit/"
MEMORY_DISK = Path("/dev/shm")
ENOUGH = 1 << 30
_folder = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary folders into memory where there is room: making a store syncs many small files to the disk."""
    usable = MEMORY_DISK.is_dir() and os.access(MEMORY_DISK, os.W_OK) and shutil.disk_usage(MEMORY_DISK).free > ENOUGH
    if config.option.basetemp is None and usable:
        config.stash[_folder] = tempfile.mkdtemp(prefix="meeseeks-tests-", dir=MEMORY_DISK)
        config.option.basetemp = str(Path(config.stash[_folder]) / "t")


class Folder(pytest.Dir):
    """A folder that each process begins to read at another file: the first to read a file compiles it for all."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        found = list(super().collect())
        number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        first = len(found) * number // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        return found[first:] + found[:first]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector:
    folder: pytest.Collector = Folder.from_parent(parent, path=path)
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix tests that compute with those that wait, which lie side by side; short ones come last, to end together."""
    items.sort(key=lambda item: _turn(_file(item.nodeid)))


def _file(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]


def _together(file: str) -> str:
    """Return what one process runs in a row: the tests of a file, or all tests of the pages, which share a browser."""
    return PAGES if file.startswith(PAGES) else file


def _turn(file: str) -> tuple[bool, str, str]:
    place = _together(file)
    return place.startswith(UNIT), hashlib.sha256(place.encode()).hexdigest(), file


class Scheduling(LoadFileScheduling):
    """Give a process what is to be run together."""

    def _split_scope(self, nodeid: str) -> str:
        return _together(_file(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


def pytest_collection_finish() -> None:
    """Collect garbage less often, and leave out what is loaded by now, a little garbage included."""
    gc.freeze()  # each collection would walk all of it, as would one before it for a few megabytes
    gc.set_threshold(3_000, 15, 15)
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _folder in config.stash:
        shutil.rmtree(config.stash[_folder], ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def one_tls_context() -> Iterator[None]:
    """Read the certificates of authorities once: otherwise each HTTP client takes 20 ms of a core for them."""
    with pytest.MonkeyPatch.context() as patch:
        for transports in (httpx_transports, httpx2_transports):
            patch.setattr(transports, "create_ssl_context", cache(transports.create_ssl_context))
        yield


@pytest.fixture(autouse=True)
def usual_logs() -> Iterator[None]:
    """Undo how a command that ran in this process logs: it may leave out what the next test looks for."""
    yield
    structlog.reset_defaults()
