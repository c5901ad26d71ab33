"""The embedded store's lock and side file."""

import fcntl
import json
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from worker.domain.errors import StoreError, StoreLocked
from worker.ports.store_record import StoreRecord
from worker.settings.atomic_file import write_atomically

LOCK_NAME = "store.lock"
RECORD_NAME = "store.json"


class StoreLock:
    """Ownership of a store's folder by one process; the kernel releases it when the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, folder: Path) -> Self:
        """Lock `folder`. Raise `StoreLocked` with the owner's process id if it is locked."""
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with ExitStack() as failed:
            failed.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                owner = os.read(descriptor, 32).decode("ascii", "replace").strip()
                raise StoreLocked(_in_use(folder, owner)) from error
            with suppress(OSError):  # on a full disk the lock holds, but names no owner
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            failed.pop_all()
        return cls(descriptor)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _in_use(folder: Path, owner: str) -> str:
    who = "this process already" if owner == str(os.getpid()) else f"process {owner or 'unknown'}"
    return (
        f"the memory store at {folder} is in use by {who}: stop that process, send your requests to it, "
        "or set qdrant_url to a Qdrant server, which several processes can share"
    )


@dataclass(frozen=True, slots=True)
class SideFile:
    """The store's recipes, and what is expected at the next opening: the minimum number of points, and the keys that
    memories set, `None` if unknown.
    """

    record: StoreRecord
    points: int
    keys: frozenset[str] | None = None

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the side file, `None` if it is missing or invalid. Raise `StoreError` if the disk fails."""
        try:
            values = json.loads((folder / RECORD_NAME).read_text(encoding="utf-8"))
            record = StoreRecord.parse(values)
            points, keys = values["points"], values.get("keys")
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None
        except OSError as error:
            raise StoreError(f"{folder / RECORD_NAME} cannot be read: {error}") from error
        if record is None or not isinstance(points, int):
            return None
        return cls(record, points, frozenset(map(str, keys)) if isinstance(keys, list) else None)

    def write(self, folder: Path) -> None:
        """Replace the side file atomically and durably. Raise `OSError`."""
        keys = {} if self.keys is None else {"keys": sorted(self.keys)}
        fields = {"format": 1, **self.record.dump(), "points": self.points, **keys}
        write_atomically(folder / RECORD_NAME, json.dumps(fields, indent=1), durable=True)
