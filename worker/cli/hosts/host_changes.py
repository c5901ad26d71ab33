"""What `install`, `uninstall` and `setup` change in the files of a host: its hooks, and memory as an MCP server."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from worker.adapters.local.host_files import HostFile
from worker.cli.output import warn
from worker.domain.errors import SettingsError
from worker.hosts import HostProfile, json_edit, settings_edit
from worker.hosts.mcp_edit import MCP_FILES, Entry, McpFile
from worker.hosts.profile import SettingsFiles
from worker.hosts.settings_edit import HandlerKind
from worker.text.masking import mask_secrets

from .host_setup import HostEnvironment


class Editor(Protocol):
    """Finds, adds and removes what is ours in the text of a file. Methods raise `SettingsError`."""

    @property
    def empty(self) -> str: ...

    def found(self, text: str) -> bool: ...

    def install(self, text: str) -> str: ...

    def uninstall(self, text: str) -> str: ...

    def is_same_but_for_ours(self, text: str, before: str) -> bool: ...

    def is_empty(self, text: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class HookEditor:
    """The hooks of a host; `kind` is only needed to install them."""

    host: HostProfile
    name: str
    kind: HandlerKind | None = None
    empty: str = settings_edit.EMPTY

    def found(self, text: str) -> bool:
        return bool(settings_edit.found(text, self.host, self.name))

    def install(self, text: str) -> str:
        return text if self.kind is None else settings_edit.install(text, self.host, self.kind, self.name)

    def uninstall(self, text: str) -> str:
        return settings_edit.uninstall(text, self.host, self.name)

    def is_same_but_for_ours(self, text: str, before: str) -> bool:
        return settings_edit.same_but_for_ours(text, before, self.host, self.name)

    def is_empty(self, text: str) -> bool:
        return json_edit.is_empty(text)


@dataclass(frozen=True, slots=True)
class McpEditor:
    """The MCP server; `entry` is only needed to install it."""

    file: McpFile
    name: str
    entry: Entry | None = None

    @property
    def empty(self) -> str:
        return self.file.empty

    def found(self, text: str) -> bool:
        return self.file.found(text, self.name) is not None

    def install(self, text: str) -> str:
        return text if self.entry is None else self.file.install(text, self.entry, self.name)

    def uninstall(self, text: str) -> str:
        return self.file.uninstall(text, self.name)

    def is_same_but_for_ours(self, text: str, before: str) -> bool:
        return self.file.others(text, self.name) == self.file.others(before, self.name)

    def is_empty(self, text: str) -> bool:
        return self.file.is_empty(text)


@dataclass(frozen=True, slots=True)
class SettingsFileChange:
    """The text of a file before and after; `None` if the file does not exist. `first` says that nothing was ours."""

    file: HostFile
    before: str | None
    after: str | None
    first: bool = False

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        """Return a unified diff without context lines, which may hold private settings."""
        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        name = str(self.file.path)
        return mask_secrets("".join(difflib.unified_diff(old, new, name, name, n=0)))

    def apply_install(self) -> None:
        """Write the file; back up its text before the first installation."""
        if self.before is not None and self.first:
            self.file.forget_backup()
            self.file.keep()
        self.file.write(self.after or "")

    def apply_uninstall(self) -> None:
        """Write, restore or delete the file, and delete its backup."""
        if self.after is None:
            self.file.delete()
        elif self.after == self.file.read_backup():
            self.file.restore()
        else:
            self.file.write(self.after)
        self.file.forget_backup()


@dataclass(frozen=True, slots=True)
class HostChange:
    """The changes of a host's files; `mcp` is `None` if the host has no place for it, or it is not wanted."""

    host: HostProfile
    hooks: SettingsFileChange
    mcp: SettingsFileChange | None

    @property
    def changed(self) -> list[SettingsFileChange]:
        return [change for change in (self.hooks, self.mcp) if change is not None and change.changes]

    def apply_install(self) -> None:
        for change in self.changed:
            change.apply_install()

    def apply_uninstall(self) -> None:
        for change in self.changed:
            change.apply_uninstall()


def plan_install(
    host: HostProfile, environment: HostEnvironment, kind: HandlerKind, entry: Entry | None, *, project: bool = False
) -> HostChange:
    """Plan to install the hooks and, with an entry, the MCP server. Raise `SettingsError` if the hooks cannot be."""
    settings = _settings(host)
    file = environment.target(settings, project=project)
    hooks = _installing(file, HookEditor(host, str(file.path), kind))
    if entry is None:
        return HostChange(host, hooks, None)
    editors = _mcp_editors(settings, environment, entry, project=project)
    return HostChange(host, hooks, _first(_installing(place, editor) for place, editor in editors))


def plan_uninstall(host: HostProfile, environment: HostEnvironment, *, project: bool = False) -> HostChange:
    """Plan to restore backups, or only to remove what is ours if a file was edited since."""
    settings = _settings(host)
    file = environment.target(settings, project=project)
    hooks = _uninstalling(file, HookEditor(host, str(file.path)))
    editors = _mcp_editors(settings, environment, None, project=project)
    return HostChange(host, hooks, _first(_uninstalling(place, editor) for place, editor in editors))


def _settings(host: HostProfile) -> SettingsFiles:
    if host.settings is None:
        raise SettingsError(f"{host.title} has no settings file; run `meeseeks hosts install {host.name}`")
    return host.settings


def _mcp_editors(
    settings: SettingsFiles, environment: HostEnvironment, entry: Entry | None, *, project: bool
) -> Iterator[tuple[HostFile, McpEditor]]:
    if settings.mcp is not None:
        file = environment.target(settings.mcp, project=project)
        yield file, McpEditor(MCP_FILES[settings.mcp.syntax], str(file.path), entry)


def _first(changes: Iterator[SettingsFileChange]) -> SettingsFileChange | None:
    """Return the change, if there is one and its file can be edited: hooks work without the MCP server."""
    try:
        return next(changes, None)
    except SettingsError as error:
        warn(f"the MCP server is left as it is: {error}")
        return None


def _installing(file: HostFile, editor: Editor) -> SettingsFileChange:
    before = file.read()
    text = before if before and before.strip() else editor.empty
    return SettingsFileChange(file, before, editor.install(text), first=not editor.found(text))


def _uninstalling(file: HostFile, editor: Editor) -> SettingsFileChange:
    before, kept = file.read(), file.read_backup()
    if before is None or not editor.found(before or editor.empty):
        return SettingsFileChange(file, before, before)
    if kept is not None and editor.is_same_but_for_ours(before, kept if kept.strip() else editor.empty):
        return SettingsFileChange(file, before, kept)
    after = editor.uninstall(before)
    return SettingsFileChange(file, before, None if kept is None and editor.is_empty(after) else after)
