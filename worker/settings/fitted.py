"""JSON files of fitted values in the data folder, one entry per model or embedder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.domain.errors import SettingsError

from .atomic_file import write_atomically


def read_table(path: Path, command: str) -> dict[str, Any]:
    """Return the entries of the file, none if it is missing; raise `SettingsError` if it is damaged."""
    try:
        table = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise broken(path, command, "not JSON" if isinstance(error, ValueError) else error.strerror) from error
    if not isinstance(table, dict):
        raise broken(path, command, "not a JSON object")
    return table


def write_table(path: Path, table: Mapping[str, Any]) -> Path:
    """Replace the file with these entries and return its path."""
    write_atomically(path, json.dumps(table, indent=1) + "\n")
    return path


def broken(path: Path, command: str, why: object) -> SettingsError:
    """Return the error for a damaged file that `command` writes."""
    return SettingsError(f"{path}: damaged ({why}); delete it or run `{command}` again")
