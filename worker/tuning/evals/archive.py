"""Where evaluations are kept: reports by their id, and the results of each world by what they depend on.

Files are written whole or not at all. A result that cannot be read is as good as none; a report that cannot is an
error.
"""

from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from worker.domain.errors import SettingsError
from worker.settings.atomic_file import write_atomically

from .results import Report, TaskRun, read_report

FOLDER = "evals"
"""Below the data folder."""

RESULTS = "results"

_RUNS = TypeAdapter(tuple[TaskRun, ...])


class EvaluationArchive:
    """Reports and results below a folder, which is made when something is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def results(self, key: str) -> dict[tuple[str, int], TaskRun]:
        """The runs that are kept under `key`, by task and repeat."""
        try:
            runs = _RUNS.validate_json(self._results(key).read_bytes())
        except (OSError, ValidationError):
            return {}
        return {(run.task, run.repeat): run for run in runs}

    def keep_results(self, key: str, runs: Sequence[TaskRun]) -> None:
        """Keep runs under `key`, in the place of what was there."""
        write_report(self._results(key), _RUNS.dump_json(tuple(runs), indent=1))

    def keep(self, report: Report) -> Path:
        """Keep a report; its file."""
        path = self._folder / f"{report.id}.json"
        write_report(path, report.model_dump_json(indent=1).encode())
        return path

    def find(self, name: str) -> Report:
        """The report of that id, of an id that begins so, or in that file. Raises `SettingsError`."""
        path = Path(name)
        if not path.is_file():
            found = sorted(self._folder.glob(f"{name}*.json")) if name.isalnum() else []
            if len(found) != 1:
                what = (
                    "several evaluations have an id that begins with" if found else "there is no evaluation and no file"
                )
                raise SettingsError(f"{what} {name!r}; `meeseeks eval` prints the id")
            path = found[0]
        try:
            return read_report(path.read_bytes(), str(path))
        except OSError as error:
            raise SettingsError(f"{path}: {error.strerror or error}") from error

    def _results(self, key: str) -> Path:
        return self._folder / RESULTS / f"{key}.json"


def write_report(path: Path, content: bytes) -> None:
    """Write a file so that whoever reads it finds all of it, or what was there before. Raises `SettingsError`."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror or error}") from error
