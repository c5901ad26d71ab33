"""The files beside the embedded store: the lock that says whose it is, and the record of how it was made."""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from worker.domain.errors import StoreError, StoreLocked
from worker.ports.store_record import StoreRecord
from worker.settings.atomic_file import write_atomically

LOCK_NAME = "store.lock"
RECORD_NAME = "store.json"


class StoreLock:
    """Ownership of a store's folder by one process; the kernel ends it with the process, however that dies."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, folder: Path) -> Self:
        """Take the lock in `folder`. Raises `StoreLocked` naming the owner's process id."""
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise StoreLocked(_in_use(folder, owner)) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _in_use(folder: Path, owner: str) -> str:
    who = "this process already" if owner == str(os.getpid()) else f"process {owner or 'unknown'}"
    return (
        f"the memory store at {folder} is in use by {who}: stop that process, or work through it, "
        "or run a Qdrant server and set qdrant_url, which many processes may share"
    )


@dataclass(frozen=True, slots=True)
class SideFile:
    """What is written beside the points: the recipes, and how many points there must be at least when next opened."""

    record: StoreRecord
    points: int

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The side file of a store, or `None` where it is missing or cannot be read. Raises `StoreError` on I/O."""
        try:
            values = json.loads((folder / RECORD_NAME).read_text(encoding="utf-8"))
            record = StoreRecord.parse(values)
            points = values["points"]
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):
            return None
        except OSError as error:
            raise StoreError(f"{folder / RECORD_NAME} cannot be read: {error}") from error
        return cls(record, points) if record is not None and isinstance(points, int) else None

    def write(self, folder: Path) -> None:
        """Replace the side file, all or nothing, and durably. Raises `OSError`."""
        fields = {"format": 1, **self.record.dump(), "points": self.points}
        write_atomically(folder / RECORD_NAME, json.dumps(fields, indent=1), durable=True)
