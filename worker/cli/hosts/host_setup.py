"""Finds the hooks in a host's settings files, and what a host is to call, for `install`, `setup` and `doctor HOST`."""

import json
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from worker.adapters.local.host_files import HostFile
from worker.cli.common import Common
from worker.cli.options import portable_options
from worker.domain.deadline import DEFAULT_HOOK_DEADLINE_MS
from worker.domain.errors import SettingsError
from worker.hosts import HostProfile
from worker.hosts.json_edit import parsed
from worker.hosts.mcp_edit import MCP_FILES, Entry
from worker.hosts.profile import McpFiles, SettingsFiles
from worker.hosts.settings_edit import EMPTY, HandlerKind, InstalledHandler, found, plugin_names
from worker.settings.injection import Settings
from worker.settings.service import ServiceSettings

PLUGIN = "meeseeks"
"""Name of the plugin in every host."""

COMMAND = "meeseeks-hook"
PROGRAM = "meeseeks"
REDIS_VARIABLE = "MEESEEKS_REDIS_URL"
FOLDER_VARIABLE = "MEESEEKS_DATA_DIR"
FOLDER_SET = f"{FOLDER_VARIABLE}="
CODEX_CONFIG = ".codex/config.toml"


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """The folders in which a host looks for its files."""

    home: Path
    project: Path

    def target(self, files: SettingsFiles | McpFiles, *, project: bool) -> HostFile:
        return HostFile(self.project / files.project if project else self.home / files.user)

    def all(self, files: SettingsFiles) -> list[HostFile]:
        """Return every distinct file that may hold hooks."""
        folders = [self.home / files.user, self.project / files.project]
        paths = [*folders, *(self.project / other for other in files.others)]
        return [HostFile(path) for path in {path.resolve(): path for path in paths}.values()]


def installed(host: HostProfile, environment: HostEnvironment) -> dict[HostFile, list[InstalledHandler]]:
    """Return the Meeseeks hooks by file; a file that cannot be read has none."""
    if host.settings is None:
        return {}
    return {file: mine for file in environment.all(host.settings) if (mine := _found_in(file, host))}


def _found_in(file: HostFile, host: HostProfile) -> list[InstalledHandler]:
    try:
        return found(file.read() or EMPTY, host, str(file.path))
    except SettingsError:
        return []


def mcp_server(host: HostProfile, file: HostFile) -> Entry:
    """Return our MCP server in a file of the host, empty if there is none or the file cannot be read."""
    if host.settings is None or host.settings.mcp is None:
        return {}
    syntax = MCP_FILES[host.settings.mcp.syntax]
    try:
        return syntax.found(file.read() or syntax.empty, str(file.path)) or {}
    except SettingsError:
        return {}


def foreign_folder(host: HostProfile, environment: HostEnvironment, home: Path) -> Path | None:
    """Return another data folder than `home` that the user's hooks or MCP server of a host name; `None` if none do."""
    if host.settings is None:
        return None
    named = [_folder_of(one.handler) for one in _found_in(environment.target(host.settings, project=False), host)]
    if not named and host.settings.mcp is not None:
        named = [_folder_of(mcp_server(host, environment.target(host.settings.mcp, project=False)))]
    return next((folder for folder in named if folder is not None and folder.resolve() != home.resolve()), None)


def _folder_of(entry: Mapping[str, Any]) -> Path | None:
    """Return the data folder of the service that a hook or MCP server calls; `None` if it does not start a command."""
    command = entry.get("command")
    if not isinstance(command, str):
        return None
    try:
        words = [*shlex.split(command), *map(str, entry.get("args", ()))]
    except (ValueError, TypeError):  # not as we write it
        return None
    named = [word.removeprefix(FOLDER_SET) for word in words if word.startswith(FOLDER_SET)]
    named += [after for word, after in pairwise(words) if word == "--data-dir"]
    return Path(named[-1]) if named else ServiceSettings().home


def plugins(host: HostProfile, environment: HostEnvironment) -> list[str]:
    """Return the enabled plugins that provide the same hooks, with the file that enables each."""
    return [*_claude_plugins(host, environment), *_codex_plugins(host, environment)]


def _claude_plugins(host: HostProfile, environment: HostEnvironment) -> Iterator[str]:
    if host.settings is None or not host.settings.plugins:
        return
    for file in environment.all(host.settings):
        yield from (f"{name} ({file.path})" for name in plugin_names(_document(file), PLUGIN))


def _codex_plugins(host: HostProfile, environment: HostEnvironment) -> Iterator[str]:
    if host.name != "codex":
        return
    path = environment.home / CODEX_CONFIG
    table = _toml(path).get("plugins")
    for name, plugin in table.items() if isinstance(table, dict) else ():
        if name.partition("@")[0] == PLUGIN and isinstance(plugin, dict) and plugin.get("enabled", True):
            yield f"{name} ({path})"


def switched_off(host: HostProfile, environment: HostEnvironment) -> list[str]:
    """Return the settings that disable all hooks, with their files."""
    files = environment.all(host.settings) if host.settings is not None and host.settings.plugins else []
    off = [f"{file.path}: disableAllHooks" for file in files if _document(file).get("disableAllHooks") is True]
    features = _toml(environment.home / CODEX_CONFIG).get("features") if host.name == "codex" else None
    if isinstance(features, dict) and features.get("hooks") is False:
        off.append(f"{environment.home / CODEX_CONFIG}: features.hooks = false")
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


def handler_kind(
    host: HostProfile,
    service: ServiceSettings,
    *,
    url: str | None,
    http: bool,
    deadline_ms: int,
    project: bool,
    user: str = "",
) -> HandlerKind:
    """Return the command or URL by which the host reaches this service. Raise `SettingsError` if it cannot.

    A URL names the user, because a service cannot look it up where the host runs.
    """
    command = command_line(host, service, deadline_ms=deadline_ms, project=project)
    if not http and url is None:
        return HandlerKind(command, None, deadline_ms)
    if host.settings is None or not host.settings.over_http:
        raise SettingsError(f"{host.title} supports only commands; omit --http and --url")
    return HandlerKind(command, endpoint(host, service, url, deadline_ms, "" if project else user), deadline_ms)


def endpoint(host: HostProfile, service: ServiceSettings, url: str | None, deadline_ms: int, user: str = "") -> str:
    """Return the URL of the host's endpoint. Raise `SettingsError` if the service has no fixed one."""
    asked = {} if deadline_ms == DEFAULT_HOOK_DEADLINE_MS else {"deadline_ms": str(deadline_ms)}
    query = urlencode({**asked, **({"user": user} if user else {})}, quote_via=quote)
    return f"{_base_url(service, url)}/v1/hooks/{host.name}{'?' if query else ''}{query}"


def _base_url(service: ServiceSettings, url: str | None) -> str:
    if url is None and (not service.http_enabled or service.http_port == 0):
        raise SettingsError("the service has no fixed HTTP address; set http_port or use --url")
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(service.http_host, service.http_host)  # noqa: S104 - not bound
    base = url or f"http://{f'[{reached}]' if ':' in reached else reached}:{service.http_port}"
    if not base.startswith(("http://", "https://")):
        raise SettingsError(f"--url: {base!r} must start with http:// or https://")
    return base.rstrip("/")


def mcp_entry(
    given: Common,
    settings: Settings,
    *,
    url: str | None = None,
    http: bool = False,
    project: bool = False,
    user: str = "",
) -> dict[str, Any]:
    """Return the MCP server with which a host reaches the same memories as its hooks do.

    The command finds the stored user by itself; a URL names it, like that of the hooks.
    """
    service = settings.service
    if http or url is not None:
        said = {"Meeseeks-User": quote(user)} if user and not project else {}
        headers = {"Authorization": "Bearer ${MEESEEKS_TOKEN:-}", **said}
        return {"type": "http", "url": f"{_base_url(service, url)}/mcp", "headers": headers}
    if project:
        return {"command": PROGRAM, "args": ["mcp"]}
    address = _address(service)
    redis = {
        name: at for name, at in address.items() if name == REDIS_VARIABLE and not given.overrides.get("redis_url")
    }
    entry = {"command": command_path(PROGRAM), "args": [*portable_options(given, settings), "mcp"]}
    return {**entry, **({"env": redis} if redis else {})}


def command_line(host: HostProfile, service: ServiceSettings, *, deadline_ms: int, project: bool) -> str:
    """Return the command for the host; for a shared project file, without paths of this machine."""
    program = COMMAND if project else shlex.quote(command_path())
    variables = {} if project else _address(service)
    if deadline_ms != DEFAULT_HOOK_DEADLINE_MS:
        variables["MEESEEKS_TIMEOUT_MS"] = str(deadline_ms)
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), program, host.name])


def snippet(host: HostProfile, service: ServiceSettings) -> str:
    """Return what to paste for a host without a settings file; it names a queue that is not the default one."""
    variables = "".join(json.dumps(f"{name}={value}") + ", " for name, value in _address(service).items())
    if not variables:
        return host.paste
    called, named = f'"{COMMAND}"', f'"{host.name}"'
    with_list = host.paste.replace(f"{called}, [{named}]", f'"env", [{variables}{called}, {named}]')
    if with_list != host.paste:
        return with_list
    return host.paste.replace(f"{called}, {named}", f'"env", {variables}{called}, {named}')


def command_path(name: str = COMMAND) -> str:
    """Return the command of this installation, else the one on `PATH`, else its name."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.is_file() else shutil.which(name) or name


def _address(service: ServiceSettings) -> dict[str, str]:
    """Return the variables with which the command finds a queue that is not the default one."""
    is_default = service.home == ServiceSettings().home
    folder = {} if is_default else {FOLDER_VARIABLE: str(service.home.absolute())}
    if service.redis_url is None:
        return folder
    if not service.redis_url.startswith(("redis://", "unix://")):
        raise SettingsError("the command supports neither TLS to Redis nor sentinels; use --http")
    if "@" in service.redis_url:
        raise SettingsError(
            "the Redis URL contains a password, which must not be written to a settings file; use --http, or omit"
            " redis_url here and set MEESEEKS_REDIS_URL in the environment of the host"
        )
    return {REDIS_VARIABLE: service.redis_url, **folder}
