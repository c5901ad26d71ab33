"""Where the hooks of a host are, and how they get there and away again: the steps of `install` and `doctor HOST`."""

import difflib
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.adapters.local.host_files import HostFile
from worker.domain.errors import SettingsError
from worker.hosts import HostProfile
from worker.hosts.json_edit import find_is_empty, parsed
from worker.hosts.profile import DEFAULT_HOOK_DEADLINE_MS, SettingsFiles
from worker.hosts.settings_edit import (
    EMPTY,
    HandlerKind,
    InstalledHandler,
    found,
    install,
    plugin_names,
    same_but_for_ours,
    uninstall,
)
from worker.settings.service import ServiceSettings
from worker.text.masking import mask_secrets

PLUGIN = "meeseeks"
"""What the plugin of every host is called."""

COMMAND = "meeseeks-hook"
CODEX_CONFIG = ".codex/config.toml"


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """Where a host looks for its files: the user's home folder, and the folder of the project."""

    home: Path
    project: Path

    def target(self, files: SettingsFiles, *, project: bool) -> HostFile:
        return HostFile(self.project / files.project if project else self.home / files.user)

    def all(self, files: SettingsFiles) -> list[HostFile]:
        """Every file that may hold hooks, each once."""
        folders = [self.home / files.user, self.project / files.project]
        paths = [*folders, *(self.project / other for other in files.others)]
        return [HostFile(path) for path in {path.resolve(): path for path in paths}.values()]


@dataclass(frozen=True, slots=True)
class SettingsFileChange:
    """What a file held and is to hold; `None` stands for no file."""

    file: HostFile
    before: str | None
    after: str | None

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        """The change as a unified diff, without the lines around it: what else is in the file is nobody's business."""
        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        name = str(self.file.path)
        return mask_secrets("".join(difflib.unified_diff(old, new, name, name, n=0)))


def plan_install(host: HostProfile, file: HostFile, way: HandlerKind) -> SettingsFileChange:
    before = file.read()
    text = before if before and before.strip() else EMPTY
    after = install(text, host, way, str(file.path))
    return SettingsFileChange(file, before, after)


def apply_install(change: SettingsFileChange, host: HostProfile) -> None:
    """Write the file; what it held before the first time is kept beside it."""
    if change.before is not None and not found(change.before or EMPTY, host, str(change.file.path)):
        change.file.forget_backup()
        change.file.keep()
    change.file.write(change.after or "")


def plan_uninstall(host: HostProfile, file: HostFile) -> SettingsFileChange:
    """As it was before, where nothing else has changed since; else as it is without our hooks."""
    before, kept = file.read(), file.read_backup()
    if before is None or not found(before or EMPTY, host, str(file.path)):
        return SettingsFileChange(file, before, before)
    if kept is not None and same_but_for_ours(before, kept if kept.strip() else EMPTY, host, str(file.path)):
        return SettingsFileChange(file, before, kept)
    after = uninstall(before, host, str(file.path))
    return SettingsFileChange(file, before, None if kept is None and find_is_empty(after) else after)


def apply_uninstall(change: SettingsFileChange) -> None:
    """Write, restore or delete the file; what was kept is no longer needed."""
    if change.after is None:
        change.file.delete()
    elif change.after == change.file.read_backup():
        change.file.restore()
    else:
        change.file.write(change.after)
    change.file.forget_backup()


def installed(host: HostProfile, around: HostEnvironment) -> dict[HostFile, list[InstalledHandler]]:
    """Every file with hooks of ours, and which; a file that cannot be read has none, for its host neither."""
    if host.settings is None:
        return {}
    return {file: mine for file in around.all(host.settings) if (mine := _found_in(file, host))}


def _found_in(file: HostFile, host: HostProfile) -> list[InstalledHandler]:
    try:
        return found(file.read() or EMPTY, host, str(file.path))
    except SettingsError:
        return []


def plugins(host: HostProfile, around: HostEnvironment) -> list[str]:
    """Plugins that bring the same hooks and are on, each with the file that says so."""
    return [*_claude_plugins(host, around), *_codex_plugins(host, around)]


def _claude_plugins(host: HostProfile, around: HostEnvironment) -> Iterator[str]:
    if host.settings is None or not host.settings.plugins:
        return
    for file in around.all(host.settings):
        yield from (f"{name} ({file.path})" for name in plugin_names(_document(file), PLUGIN))


def _codex_plugins(host: HostProfile, around: HostEnvironment) -> Iterator[str]:
    if host.name != "codex":
        return
    path = around.home / CODEX_CONFIG
    table = _toml(path).get("plugins")
    for name, plugin in table.items() if isinstance(table, dict) else ():
        if name.partition("@")[0] == PLUGIN and isinstance(plugin, dict) and plugin.get("enabled", True):
            yield f"{name} ({path})"


def switched_off(host: HostProfile, around: HostEnvironment) -> list[str]:
    """The files that say that no hook is to run, each with what it says."""
    files = around.all(host.settings) if host.settings is not None and host.settings.plugins else []
    off = [f"{file.path}: disableAllHooks" for file in files if _document(file).get("disableAllHooks") is True]
    features = _toml(around.home / CODEX_CONFIG).get("features") if host.name == "codex" else None
    if isinstance(features, dict) and features.get("hooks") is False:
        off.append(f"{around.home / CODEX_CONFIG}: features.hooks = false")
    return off


def _document(file: HostFile) -> dict[str, Any]:
    try:
        return parsed(file.read() or EMPTY, str(file.path))
    except SettingsError:
        return {}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def way_of(
    host: HostProfile, service: ServiceSettings, *, url: str | None, http: bool, deadline_ms: int, project: bool
) -> HandlerKind:
    """How the host is to reach this very service. Raises `SettingsError` where it cannot."""
    command = command_line(host, service, deadline_ms=deadline_ms, project=project)
    if not http and url is None:
        return HandlerKind(command, None, deadline_ms)
    if host.settings is None or not host.settings.over_http:
        raise SettingsError(f"{host.title} runs commands only; leave --http and --url out")
    return HandlerKind(command, endpoint(host, service, url, deadline_ms), deadline_ms)


def endpoint(host: HostProfile, service: ServiceSettings, url: str | None, deadline_ms: int) -> str:
    """The URL of the host's endpoint."""
    if url is None and (not service.http_enabled or service.http_port == 0):
        raise SettingsError("the service has no fixed address for HTTP; set http_port, or say --url")
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(service.http_host, service.http_host)  # noqa: S104 - not bound
    base = url or f"http://{f'[{reached}]' if ':' in reached else reached}:{service.http_port}"
    if not base.startswith(("http://", "https://")):
        raise SettingsError(f"--url: {base!r} must begin with http:// or https://")
    limit = "" if deadline_ms == DEFAULT_HOOK_DEADLINE_MS else f"?deadline_ms={deadline_ms}"
    return f"{base.rstrip('/')}/v1/hooks/{host.name}{limit}"


def command_line(host: HostProfile, service: ServiceSettings, *, deadline_ms: int, project: bool) -> str:
    """The command that the host is to run. In a project's file, which others use as well, it names no place."""
    program = COMMAND if project else shlex.quote(command_path())
    variables = {} if project else _address(service)
    if deadline_ms != DEFAULT_HOOK_DEADLINE_MS:
        variables["MEESEEKS_TIMEOUT_MS"] = str(deadline_ms)
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), program, host.name])


def command_path() -> str:
    """The command that belongs to this installation, else what `PATH` finds, else its name."""
    beside = Path(sys.executable).with_name(COMMAND)
    return str(beside) if beside.is_file() else shutil.which(COMMAND) or COMMAND


def _address(service: ServiceSettings) -> dict[str, str]:
    """What the command must be told to find the queue, where that is not where it would look anyhow."""
    if service.redis_url is None:
        is_default = service.home == ServiceSettings().home
        return {} if is_default else {"MEESEEKS_DATA_DIR": str(service.home.absolute())}
    if service.redis_url.startswith("rediss://"):
        raise SettingsError("the command cannot speak TLS to Redis; use --http")
    if "@" in service.redis_url:
        raise SettingsError(
            "the address of Redis holds a password, which does not belong into a settings file; use --http, or leave"
            " redis_url out here and set MEESEEKS_REDIS_URL in the environment that the host is started in"
        )
    return {"MEESEEKS_REDIS_URL": service.redis_url}
