"""Find and read the files of data sets."""

from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from worker.domain.validation import describe_faults

from ..processes import BenchError

T = TypeVar("T")


def folder_of(file: str, data: Path) -> Path | None:
    """Return the folder below `data` that holds `file`."""
    return next((path.parent for path in sorted(data.rglob(file))), None)


def read(path: Path, form: TypeAdapter[T]) -> T:
    """Read a JSON file. Raise `BenchError` if it is missing or has another form."""
    try:
        return form.validate_json(path.read_bytes())
    except ValidationError as error:
        raise BenchError(f"{path}: {describe_faults(error)}") from error
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error
