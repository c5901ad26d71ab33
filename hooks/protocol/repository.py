"""Tell which project a folder belongs to, without running git: by its repository's remote, else by its path.

Standard library only, without modules that are slow to load. Reads at most a few small files; never raises.

The identity of a project is
- `host/owner/name` of the remote `origin`, or of the only remote, without scheme, user, port and `.git`;
- else `~user/path` or `/path` of the repository's main folder, or of the folder itself if it is in no repository.

So it is the same in subfolders, worktrees, other clones and other spellings of a path.
"""

import os

MOST_BYTES = 65_536
"""Bytes read of a file of git."""

MOST_PARENTS = 64
"""Folders searched for `.git`, from the given one upwards."""

MOST_CHARS = 400
"""Maximum length of an identity; of a longer one, the end is kept."""

WORKTREES = ("/.claude/worktrees/", "/.worktrees/", "/.git/worktrees/")
"""Where agents keep worktrees inside the repository that they belong to."""

_HOMES = ("/home/", "/users/", "/documents and settings/")
_ALIASES = {
    "ssh.github.com": "github.com",
    "ssh.dev.azure.com": "dev.azure.com",
    "altssh.bitbucket.org": "bitbucket.org",
}
"""Hosts that serve the repositories of another one."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def project_of(folder: str) -> "tuple[str, str]":
    """Return the identity of the project of `folder` and the name of its main folder; empty for a relative path."""
    try:
        return _in_repository(folder) or by_path(_real(folder))
    except (OSError, ValueError):
        return by_path(folder)


def by_path(folder: str) -> "tuple[str, str]":
    """Return what `project_of` returns for a folder that cannot be read, from its path alone."""
    path = _plain(folder)
    for inside in WORKTREES:
        path = path.partition(inside)[0]
    if not path.startswith("/") or path == "/":
        return "", ""
    return _short(_from_home(path.lower())), path.rsplit("/", 1)[-1]


def _plain(folder: str) -> str:
    """Return a path with `/` only and without a drive: `C:\\a`, `/mnt/c/a` and `/c/a` are spellings of one folder."""
    path = folder.strip().replace("\\", "/")
    path = path.removeprefix("//?/")
    if path[1:2] == ":" and path[:1].lower() in _LETTERS:
        path = path[2:]
    parts = [part for part in path.split("/") if part not in ("", ".")] if path.startswith("/") else [path]
    if len(parts) > 2 and parts[0] == "mnt" and len(parts[1]) == 1:
        parts = parts[2:]
    elif len(parts) > 1 and len(parts[0]) == 1 and parts[0].lower() in _LETTERS:
        parts = parts[1:]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _from_home(path: str) -> str:
    for homes in _HOMES:
        if path.startswith(homes):
            return "~" + path[len(homes) :]
    return path


def _short(identity: str) -> str:
    return identity[-MOST_CHARS:]


def _real(folder: str) -> str:
    known = os.path.isabs(folder) and os.path.isdir(folder)  # noqa: PTH112, PTH117 - pathlib is slow to load
    return os.path.realpath(folder) if known else folder


def _in_repository(folder: str) -> "tuple[str, str] | None":
    if not os.path.isabs(folder) or not os.path.isdir(folder):  # noqa: PTH112, PTH117
        return None
    place = os.path.realpath(folder)
    for _ in range(MOST_PARENTS):
        shared = _git_folder(place)
        if shared is not None:
            return _identified(place, shared)
        above = os.path.dirname(place)  # noqa: PTH120
        if above == place:
            return None
        place = above
    return None


def _git_folder(place: str) -> "str | None":
    """Return the folder with the configuration of the repository whose working tree starts at `place`."""
    marker = place + "/.git"
    if os.path.isdir(marker):  # noqa: PTH112
        return marker if os.path.isfile(marker + "/HEAD") else None  # noqa: PTH113
    if not os.path.isfile(marker):  # noqa: PTH113
        return None
    word, _, target = _text(marker).partition(":")
    if word.strip() != "gitdir" or not target.strip():
        return None
    own = os.path.normpath(os.path.join(place, target.strip()))  # noqa: PTH118
    common = _text(own + "/commondir").strip() if os.path.isfile(own + "/commondir") else ""  # noqa: PTH113
    return os.path.normpath(os.path.join(own, common)) if common else own  # noqa: PTH118


def _identified(place: str, shared: str) -> "tuple[str, str]":
    """Return identity and name of the repository that has its configuration in `shared`."""
    parent, last = os.path.split(shared)
    inside = "/.git/modules/" in shared
    main = place if inside else parent if last == ".git" else shared.removesuffix(".git")
    identity, name = by_path(main)
    url = _remote(_text(shared + "/config"))
    if url.startswith((".", "/", "file:")):
        local = os.path.normpath(os.path.join(main, url.removeprefix("file://").removeprefix("file:")))  # noqa: PTH118
        return by_path(local.removesuffix("/.git").removesuffix(".git"))[0] or identity, name
    return remote_identity(url) or identity, name


def _text(path: str) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return os.read(handle, MOST_BYTES).decode("utf-8", "replace")
    finally:
        os.close(handle)


def _remote(config: str) -> str:
    """Return the URL of the remote `origin`, or of the only remote, in a configuration of git."""
    found: dict[str, str] = {}
    section = ""
    for line in map(str.strip, config.splitlines()):
        if line.startswith("["):
            section = line
        elif section.startswith("[remote "):
            key, mark, value = line.partition("=")
            if mark and key.strip().lower() == "url":
                found.setdefault(section[8:].strip(' "]'), value.strip().strip('"'))
    return found.get("origin") or (next(iter(found.values())) if len(found) == 1 else "")


def remote_identity(url: str) -> str:
    """Return `host/owner/name` in lower case, without a user and password; empty if `url` names no host."""
    scheme, mark, rest = url.strip().partition("://")
    if mark:
        authority, _, path = rest.partition("/")
        host = authority.rpartition("@")[2]
        host = host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    else:
        authority, colon, path = scheme.partition(":")
        host = authority.rpartition("@")[2] if colon and "/" not in authority else ""
    parts = [part for part in path.partition("?")[0].split("/") if part and part not in ("_git", "v3", "~")]
    host = host.lower().removeprefix("www.")
    if not host or not parts:
        return ""
    parts[-1] = parts[-1].removesuffix(".git")
    return _short("/".join([_ALIASES.get(host, host), *parts]).lower())
