"""Names of projects as the user wants them, in the file `projects.toml` of the data folder.

[projects]
"github.com/acme/api" = "acme-api"
"/srv/clients/acme" = "acme-api"
"""

import tomllib
from pathlib import Path

import structlog

from hooks.protocol.repository import by_path, remote_identity

NAME = "projects.toml"
MOST_BYTES = 1 << 20

log = structlog.get_logger()


class ProjectFile:
    """Names by identity of a project. The file is read again when it changes; an invalid one is reported, not used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._names: dict[str, str] = {}

    def name_of(self, identity: str) -> str | None:
        """Return the user's name for a project, if the file has one. Reads the file: call it in a thread."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp, self._names = stamp, self._read() if stamp else {}
        return self._names.get(identity)

    def _look(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size

    def _read(self) -> dict[str, str]:
        try:
            with self._path.open("rb") as file:
                table = tomllib.loads(file.read(MOST_BYTES).decode("utf-8")).get("projects")
        except (OSError, ValueError) as error:
            log.warning("projects_file_invalid", path=str(self._path), error=str(error))
            return {}
        named = table.items() if isinstance(table, dict) else ()
        return {identity_of(key): name for key, name in named if isinstance(name, str) and name.strip()}


def identity_of(key: str) -> str:
    """Return the identity that a key of the file means: a remote in any spelling, or a folder."""
    if key.startswith(("/", "~/", "\\")) or key[1:2] == ":":
        return by_path(str(Path(key).expanduser()))[0]
    return remote_identity(key) or key.lower().removesuffix(".git")
