"""Registry of automations, an SQLite file that orchestrators and the CLI share."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..private_files import make_private_folder
from ..protocol import wire
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
"""Seconds that a write waits for another; reads never wait for writes."""

_MIGRATIONS = Path(__file__).with_name("migrations")
_COLUMNS = tuple(Automation.__dataclass_fields__)
_ORDER = "ORDER BY hook_point, position, id"
_WRITTEN = tuple(name for name in _COLUMNS if name not in ("created_at", "updated_at"))


def default_registry_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the registry in the data folder."""
    return Path(wire.data_dir(environ)) / FILE_NAME


class Registry:
    """The automations in the file `path`, which is created on first use with memory injection in it.

    Methods block for some milliseconds, are safe to call from any thread or process, and raise `RegistryUnavailable` on
    failure. A file writable by others is refused, because they could run programs as its owner.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> tuple[Automation, ...]:
        """Return every automation, by hook point and in the order of execution."""
        return self._read(_ORDER, ())

    def active(self, hook_point: str) -> tuple[Automation, ...]:
        """Return the active automations of a hook point, in order."""
        return self._read(f"WHERE hook_point = ? AND status = ? {_ORDER}", (hook_point, AutomationStatus.ACTIVE))

    def get(self, name: str) -> Automation:
        """Return an automation. Raise `AutomationMissing` if there is none."""
        found = self._read("WHERE name = ?", (name,))
        if not found:
            raise AutomationMissing(f"unknown automation {name!r}; `meeseeks hosts automations list` shows all")
        return found[0]

    def add(self, automation: Automation) -> Automation:
        """Register an automation and return it as stored. Raise `AutomationRejected` if it is invalid."""
        check(automation)
        values = asdict(automation)
        marks = ", ".join("?" * len(_WRITTEN))
        statement = f"INSERT INTO automations ({', '.join(_WRITTEN)}) VALUES ({marks})"  # noqa: S608 - fixed names
        try:
            with self._open() as connection:
                connection.execute("BEGIN IMMEDIATE")
                if connection.execute("SELECT 1 FROM automations WHERE name = ?", (automation.name,)).fetchone():
                    raise AutomationRejected(f"the automation {automation.name!r} already exists; remove it first")
                connection.execute(statement, [values[name] for name in _WRITTEN])
                connection.execute("COMMIT")
        except sqlite3.IntegrityError as error:
            raise AutomationRejected(
                f"the automation {automation.name!r} does not fit the registry: {error}"
            ) from error
        return self.get(automation.name)

    def set_status(self, name: str, status: AutomationStatus) -> Automation:
        """Enable or disable an automation. Raise `AutomationMissing` if there is none."""
        now = "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"
        with self._open() as connection:
            connection.execute(
                f"UPDATE automations SET status = ?, updated_at = {now} WHERE name = ?",  # noqa: S608 - fixed text
                (status, name),
            )
        return self.get(name)

    def remove(self, name: str) -> Automation:
        """Remove an automation and return it. Raise `AutomationMissing` if there is none."""
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
            raise RegistryUnavailable(f"the registry {self.path} cannot be used: {error}") from error


def _automation(row: dict[str, Any]) -> Automation:
    return replace(
        Automation(**row),
        mode=Lifetime(row["mode"]),
        status=AutomationStatus(row["status"]),
        kind=Kind(row["kind"]),
        blocking=bool(row["blocking"]),
    )


def _prepare(path: Path) -> None:
    """Create the file if it is missing. Raise `PermissionError` if others may write it."""
    try:
        found = path.stat()
    except FileNotFoundError:
        make_private_folder(path.parent)
        _create(path)
        found = path.stat()
    if found.st_mode & 0o022 or found.st_uid not in (os.getuid(), 0):
        raise PermissionError("other users may write the file; run chmod go-w on it")


def _create(path: Path) -> None:
    """Create the complete private file elsewhere and link it into place, unless another process was faster."""
    with TemporaryDirectory(prefix=".automations-", dir=path.parent) as folder:
        created = Path(folder) / path.name
        with closing(sqlite3.connect(created, isolation_level=None)) as connection:
            _migrate(connection)
            connection.execute("PRAGMA journal_mode = WAL")
        created.chmod(0o600)
        with suppress(FileExistsError):
            path.hardlink_to(created)


def _migrate(connection: sqlite3.Connection) -> None:
    """Apply missing migrations; `PRAGMA user_version` counts the applied ones."""
    migrations = sorted(_MIGRATIONS.glob("*.sql"))
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == len(migrations):
        return
    if version > len(migrations):
        raise sqlite3.DatabaseError("it was created by a newer version; upgrade this package")
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for migration in migrations[version:]:
        for statement in _statements(migration.read_text(encoding="utf-8")):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(migrations)}")
    connection.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script, because `executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
