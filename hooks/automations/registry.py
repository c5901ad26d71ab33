"""The table of automations, an SQLite file that orchestrators and the command share."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .. import wire
from .model import (
    Automation,
    AutomationMissing,
    AutomationRejected,
    AutomationStatus,
    Kind,
    Lifetime,
    RegistryUnavailable,
    check,
)

FILE_NAME = "automations.db"

BUSY_TIMEOUT = 2.0
"""Seconds that a change waits for another one; reading never waits for changes."""

_MIGRATIONS = Path(__file__).with_name("migrations")
_COLUMNS = tuple(Automation.__dataclass_fields__)
_ORDER = "ORDER BY hook_point, position, id"
_WRITTEN = tuple(name for name in _COLUMNS if name not in ("created_at", "updated_at"))


def default_registry_path(environ: Mapping[str, str]) -> Path:
    """The registry in the service's data folder: MEESEEKS_DATA_DIR, else the user's own."""
    return Path(wire.data_dir(environ)) / FILE_NAME


class Registry:
    """The automations in the file `path`, which is made, with memory injection in it, when it is first needed.

    Methods block for some milliseconds, and may be called from any thread or process. They raise `RegistryUnavailable`.
    A file that others than its owner may write is refused: who can write it can run programs as that user.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> tuple[Automation, ...]:
        """Every automation, by hook point and then in the order in which they run."""
        return self._read(_ORDER, ())

    def active(self, hook_point: str) -> tuple[Automation, ...]:
        """What runs at a hook point, in order."""
        return self._read(f"WHERE hook_point = ? AND status = ? {_ORDER}", (hook_point, AutomationStatus.ACTIVE))

    def get(self, name: str) -> Automation:
        """Raises `AutomationMissing`."""
        found = self._read("WHERE name = ?", (name,))
        if not found:
            raise AutomationMissing(
                f"there is no automation {name!r}; `meeseeks automations list` shows those there are"
            )
        return found[0]

    def add(self, automation: Automation) -> Automation:
        """Register one; the row as it is stored. Raises `AutomationRejected`."""
        check(automation)
        values = asdict(automation)
        marks = ", ".join("?" * len(_WRITTEN))
        statement = f"INSERT INTO automations ({', '.join(_WRITTEN)}) VALUES ({marks})"  # noqa: S608 - fixed names
        try:
            with self._open() as connection:
                connection.execute(statement, [values[name] for name in _WRITTEN])
        except sqlite3.IntegrityError as error:
            raise AutomationRejected(f"there is an automation {automation.name!r} already; remove it first") from error
        return self.get(automation.name)

    def set_status(self, name: str, status: AutomationStatus) -> Automation:
        """Enable or disable one. Raises `AutomationMissing`."""
        now = "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"
        with self._open() as connection:
            connection.execute(
                f"UPDATE automations SET status = ?, updated_at = {now} WHERE name = ?",  # noqa: S608 - fixed text
                (status, name),
            )
        return self.get(name)

    def remove(self, name: str) -> Automation:
        """Take one out; what it was. Raises `AutomationMissing`."""
        found = self.get(name)
        with self._open() as connection:
            connection.execute("DELETE FROM automations WHERE name = ?", (name,))
        return found

    def _read(self, rest: str, values: tuple[str, ...]) -> tuple[Automation, ...]:
        with self._open() as connection:
            rows = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM automations {rest}", values)  # noqa: S608
            return tuple(_automation(dict(zip(_COLUMNS, row, strict=True))) for row in rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            _prepare(self.path)
            with closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT, isolation_level=None)) as connection:
                _migrate(connection)
                yield connection
        except sqlite3.IntegrityError:
            raise
        except (sqlite3.Error, OSError) as error:
            raise RegistryUnavailable(f"the automations in {self.path} cannot be used: {error}") from error


def _automation(row: dict[str, Any]) -> Automation:
    return replace(
        Automation(**row),
        mode=Lifetime(row["mode"]),
        status=AutomationStatus(row["status"]),
        kind=Kind(row["kind"]),
        blocking=bool(row["blocking"]),
    )


def _prepare(path: Path) -> None:
    """Make the file where it is missing. Raises `PermissionError` for one that others may write."""
    try:
        found = path.stat()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make(path)
        found = path.stat()
    if found.st_mode & 0o022 or found.st_uid not in (os.getuid(), 0):
        raise PermissionError("others may write the file; take that right from them with chmod go-w")


def _make(path: Path) -> None:
    """Make the registry aside, whole and for its owner alone, and put it in place unless another one was quicker."""
    with TemporaryDirectory(prefix=".automations-", dir=path.parent) as aside:
        made = Path(aside) / path.name
        with closing(sqlite3.connect(made, isolation_level=None)) as connection:
            _migrate(connection)
            connection.execute("PRAGMA journal_mode = WAL")
        made.chmod(0o600)
        with suppress(FileExistsError):
            path.hardlink_to(made)


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the table to the newest version; `PRAGMA user_version` counts the migrations that have been made."""
    migrations = sorted(_MIGRATIONS.glob("*.sql"))
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == len(migrations):
        return
    if version > len(migrations):
        raise sqlite3.DatabaseError("it was made by a newer version; upgrade this one")
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for migration in migrations[version:]:
        for statement in _statements(migration.read_text(encoding="utf-8")):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(migrations)}")
    connection.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one at a time: `executescript` would end the transaction that they are part of."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
