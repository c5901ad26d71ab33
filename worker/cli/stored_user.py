"""The user whose memories hosts, MCP servers and commands here use, set by `meeseeks hosts install --user`."""

from pathlib import Path

from hooks.protocol.wire import USER_FILE, stored_user
from worker.domain.errors import SettingsError
from worker.settings.atomic_file import write_atomically

MOST_CHARS = 512


def store_user(home: Path, name: str) -> None:
    """Store the user in the data folder. Raise `SettingsError` if the name or the folder cannot be used."""
    if not name.strip() or len(name) > MOST_CHARS or not name.isprintable():
        raise SettingsError(f"--user: use a name of 1 to {MOST_CHARS} printable characters")
    try:
        write_atomically(home / USER_FILE, name.strip() + "\n")
    except OSError as error:
        raise SettingsError(f"{home / USER_FILE}: {error.strerror or error}") from error


def difference(home: Path, user: str | None, where: str) -> str:
    """Return a warning if `user`, as said in `where`, is not the stored one; empty otherwise."""
    stored = stored_user(str(home))
    if not stored or stored == (user or stored):
        return ""
    return (
        f"{where} says user {user!r}, but {stored!r} is stored for the hooks: they see different private memories. "
        f"Store one for all: meeseeks hosts install HOST --user NAME"
    )
