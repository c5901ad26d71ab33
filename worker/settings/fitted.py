"""JSON files of fitted values in the data folder, one entry per model or embedder."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from worker.domain.errors import SettingsError

from .atomic_file import locked, write_atomically


def read_table(path: Path, command: str) -> dict[str, Any]:
    """Return the entries of the file, none if it is missing; raise `SettingsError` if it is damaged."""
    try:
        table = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise broken(path, command, "not JSON" if isinstance(error, ValueError) else error.strerror) from error
    if not isinstance(table, dict):
        raise broken(path, command, "not a JSON object")
    return table


def update_table(path: Path, command: str, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> Path:
    """Change the entries under a lock and return the file's path; a damaged file is replaced.

    Raise `SettingsError` if it cannot be written.
    """
    try:
        with locked(path):
            try:
                table = read_table(path, command)
            except SettingsError:
                table = {}
            write_atomically(path, json.dumps(change(table), indent=1) + "\n")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror or error}") from error
    return path


def broken(path: Path, command: str, why: object) -> SettingsError:
    """Return the error for a damaged file that `command` writes."""
    return SettingsError(f"{path}: damaged ({why}); delete it or run `{command}` again")
