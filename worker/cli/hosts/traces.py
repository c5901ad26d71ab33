"""What `setup` leaves on a machine, and how it is removed: the data folder, and folders that did not exist before."""

import json
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from hooks.protocol.wire import USER_FILE, socket_path
from worker.cli.supervision import LOG_FILE
from worker.domain.errors import SettingsError
from worker.recall import thresholds
from worker.relevance import adjustment
from worker.settings.atomic_file import write_atomically
from worker.triage import decision_scale

RECORD = "setup.json"

SERVICE_FILES = (
    *("memories", "memories.json", "memories-*", "valkey", "valkey.sock", "receipts", "imports", USER_FILE, RECORD),
    *(LOG_FILE, f"{LOG_FILE}.1", ".*.lock"),
)
"""Names in the data folder that the service writes by itself."""

USERS_FILES = ("evals", "usage.json*", "automations.db*", thresholds.FILE, adjustment.FILE, decision_scale.FILE)
"""Names in the data folder that hold what the user did with commands."""


def missing_folders(paths: Iterable[Path]) -> list[Path]:
    """Return the folders that do not exist and are needed for files at these paths."""
    missing = {folder: None for path in paths for folder in path.absolute().parents if not folder.exists()}
    return list(missing)


def remember_folders(home: Path, folders: Iterable[Path]) -> None:
    """Note in the data folder which folders did not exist before. Raise `SettingsError`."""
    made = dict.fromkeys([*_made_folders(home), *map(str, folders)])
    try:
        write_atomically(home / RECORD, json.dumps({"folders": list(made)}) + "\n")
    except OSError as error:
        raise SettingsError(f"{home / RECORD}: {error.strerror or error}") from error


def remove_traces(home: Path, *, data: bool, everything: bool) -> None:
    """Remove folders that were made and are empty, and before that the `data` of the service, or `everything`."""
    made = [Path(folder) for folder in _made_folders(home)]
    try:
        (home / RECORD).unlink(missing_ok=True)
        for pattern in (*SERVICE_FILES, *(USERS_FILES if everything else ())) if data else ():
            for path in home.glob(pattern):
                _delete(path)
    except OSError as error:
        raise SettingsError(f"{error.filename or home}: {error.strerror or error}") from error
    socket_folder = Path(socket_path(str(home.absolute()))).parent
    for folder in sorted({*made, *([home, socket_folder] if data else [])}, key=_depth, reverse=True):
        with suppress(OSError):
            folder.rmdir()  # fails if it is not empty


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _depth(folder: Path) -> int:
    return len(folder.parts)


def _made_folders(home: Path) -> list[str]:
    try:
        return [str(folder) for folder in json.loads((home / RECORD).read_text(encoding="utf-8"))["folders"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
