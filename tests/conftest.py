"""Settings that hold for every test."""

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Tests start many processes, and each would compile every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

settings.register_profile(
    "suite", deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fuzz", settings.get_profile("suite"), max_examples=5_000, derandomize=False)
settings.load_profile("suite")

MEMORY_DISK = Path("/dev/shm")
ENOUGH = 1 << 30
_folder = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary folders into memory where there is room: making a store syncs many small files to the disk."""
    usable = MEMORY_DISK.is_dir() and os.access(MEMORY_DISK, os.W_OK) and shutil.disk_usage(MEMORY_DISK).free > ENOUGH
    if config.option.basetemp is None and usable:
        config.stash[_folder] = tempfile.mkdtemp(prefix="meeseeks-tests-", dir=MEMORY_DISK)
        config.option.basetemp = str(Path(config.stash[_folder]) / "t")


def pytest_collection_finish() -> None:
    """Leave what is loaded by now out of later collections of garbage, each of which would walk all of it."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _folder in config.stash:
        shutil.rmtree(config.stash[_folder], ignore_errors=True)
