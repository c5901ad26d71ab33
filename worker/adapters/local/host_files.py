"""Settings files of hosts: read, atomic write and backup."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from worker.domain.errors import SettingsError
from worker.settings.atomic_file import write_atomically

BACKUP_SUFFIX = ".before-meeseeks"
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class HostFile:
    """A settings file at the path its host uses. Methods raise `SettingsError`."""

    path: Path

    @property
    def backup(self) -> Path:
        """Return the path of the copy made before the first change."""
        return self._real.with_name(self._real.name + BACKUP_SUFFIX)

    @property
    def _real(self) -> Path:
        """Return the path with links resolved."""
        return self.path.resolve()

    def read(self) -> str | None:
        """Return the text without a byte order mark, `None` if there is no file."""
        return self._text(self._real)

    def read_backup(self) -> str | None:
        return self._text(self.backup)

    def write(self, text: str) -> None:
        """Replace the text atomically, keeping mode and byte order mark."""
        real = self._real
        with _os_errors(self.path):
            marked = real.is_file() and real.read_bytes().startswith(_BOM.encode())
            real.parent.mkdir(parents=True, exist_ok=True)
            _replace(real, (_BOM + text if marked else text).encode("utf-8"))

    def keep(self) -> None:
        """Back up the file unless there is a backup."""
        with _os_errors(self.path):
            if self._real.is_file() and not self.backup.exists():
                _replace(self.backup, self._real.read_bytes(), like=self._real)

    def restore(self) -> None:
        """Move the backup back."""
        with _os_errors(self.path):
            self.backup.replace(self._real)

    def forget_backup(self) -> None:
        with _os_errors(self.path):
            self.backup.unlink(missing_ok=True)

    def delete(self) -> None:
        with _os_errors(self.path):
            self._real.unlink(missing_ok=True)

    def _text(self, path: Path) -> str | None:
        with _os_errors(self.path):
            if not path.exists():
                return None
            try:
                return path.read_bytes().decode("utf-8").removeprefix(_BOM)
            except UnicodeDecodeError as error:
                raise SettingsError(f"{path}: not UTF-8; convert it first, nothing was changed") from error


@contextmanager
def _os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}; nothing was changed") from error


def _replace(path: Path, data: bytes, like: Path | None = None) -> None:
    """Replace the file atomically, with the mode of `like` or of the old file."""
    model = like or path
    mode = model.stat().st_mode & 0o777 if model.exists() else 0o600
    write_atomically(path, data, mode=mode, durable=True)
