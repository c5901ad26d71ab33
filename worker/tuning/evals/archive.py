"""Store evaluations on disk: reports by id, and each world's results by their cache key.

Unreadable results are ignored; an unreadable report is an error.
"""

from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from worker.domain.errors import SettingsError
from worker.settings.atomic_file import write_atomically

from .results import Report, TaskRun, read_report

FOLDER = "evals"
"""Folder inside the data folder."""

_RUNS = TypeAdapter(tuple[TaskRun, ...])


class EvaluationArchive:
    """Reports and results in a folder, which is created on the first write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def results(self, key: str) -> dict[tuple[str, int], TaskRun]:
        """Return the runs stored under `key`, by task and repeat."""
        try:
            runs = _RUNS.validate_json(self._results(key).read_bytes())
        except (OSError, ValidationError):
            return {}
        return {(run.task, run.repeat): run for run in runs}

    def keep_results(self, key: str, runs: Sequence[TaskRun]) -> None:
        """Store runs under `key`, replacing earlier ones."""
        write_file(self._results(key), _RUNS.dump_json(tuple(runs), indent=1))

    def keep(self, report: Report) -> None:
        write_file(self._folder / f"{report.id}.json", report.model_dump_json(indent=1).encode())

    def find(self, name: str) -> Report:
        """Return the report with that id, id prefix or file name. Raise `SettingsError` if there is not exactly one."""
        path = Path(name)
        if not path.is_file():
            found = sorted(self._folder.glob(f"{name}*.json")) if name.isalnum() else []
            if len(found) != 1:
                what = "several evaluations have an id beginning with" if found else "there is no evaluation or file"
                raise SettingsError(f"{what} {name!r}; use an id printed by `meeseeks eval`")
            path = found[0]
        try:
            return read_report(path.read_bytes(), str(path))
        except OSError as error:
            raise SettingsError(f"{path}: {error.strerror or error}") from error

    def _results(self, key: str) -> Path:
        return self._folder / "results" / f"{key}.json"


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically. Raise `SettingsError` if that fails."""
    try:
        write_atomically(path, content, mode=0o644)
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error.strerror or error}") from error
