"""Installing and removing the MCP server in the text of a host's file, keeping everything else as it is.

Files are JSON with a table `mcpServers`, or TOML with a table `mcp_servers`. Ours is named `meeseeks` there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError

from worker.domain.errors import SettingsError

from . import json_edit
from .profile import Syntax

NAME = "meeseeks"
JSON_KEY, TOML_KEY = "mcpServers", "mcp_servers"

Entry = Mapping[str, Any]


class McpFile(Protocol):
    """A kind of file with MCP servers. Methods raise `SettingsError` if the text is invalid."""

    @property
    def empty(self) -> str:
        """Return the initial contents of a new file."""
        ...

    def found(self, text: str, name: str) -> Entry | None:
        """Return our entry. Raise `SettingsError` if another server has its name."""
        ...

    def install(self, text: str, entry: Entry, name: str) -> str: ...

    def uninstall(self, text: str, name: str) -> str: ...

    def others(self, text: str, name: str) -> dict[str, Any]:
        """Return the document without our entry."""
        ...

    def is_empty(self, text: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class JsonMcpFile:
    """A JSON file, edited byte for byte."""

    empty: str = "{}\n"

    def found(self, text: str, name: str) -> Entry | None:
        return _ours(json_edit.parsed(text, name), JSON_KEY, name)

    def install(self, text: str, entry: Entry, name: str) -> str:
        if self.found(text, name) == entry:
            return text
        text = self.uninstall(text, name)
        if json_edit.find(text, (JSON_KEY,)) is None:
            return json_edit.add(text, (), {NAME: entry}, JSON_KEY)
        return json_edit.add(text, (JSON_KEY,), entry, NAME)

    def uninstall(self, text: str, name: str) -> str:
        if self.found(text, name) is None:
            return text
        text = json_edit.remove(text, (JSON_KEY,), json_edit.at(text, (JSON_KEY, NAME)))
        servers = json_edit.at(text, (JSON_KEY,))
        return text if list(json_edit.parts(text, servers.start)) else json_edit.remove(text, (), servers)

    def others(self, text: str, name: str) -> dict[str, Any]:
        return _without_ours(json_edit.parsed(text, name), JSON_KEY)

    def is_empty(self, text: str) -> bool:
        return json_edit.is_empty(text)


@dataclass(frozen=True, slots=True)
class TomlMcpFile:
    """A TOML file, of which comments and order are kept."""

    empty: str = ""

    def found(self, text: str, name: str) -> Entry | None:
        return _ours(_toml(text, name).unwrap(), TOML_KEY, name)

    def install(self, text: str, entry: Entry, name: str) -> str:
        if self.found(text, name) == entry:
            return text
        document = _toml(self.uninstall(text, name), name)
        wanted = document.unwrap()
        wanted.setdefault(TOML_KEY, {})[NAME] = dict(entry)
        document.setdefault(TOML_KEY, tomlkit.table(is_super_table=True))[NAME] = dict(entry)
        return _checked(document, wanted, name)

    def uninstall(self, text: str, name: str) -> str:
        document = _toml(text, name)
        if self.found(text, name) is None:
            return text
        wanted = _without_ours(document.unwrap(), TOML_KEY)
        del document[TOML_KEY][NAME]
        if TOML_KEY not in wanted:
            del document[TOML_KEY]
        return _checked(document, wanted, name)

    def others(self, text: str, name: str) -> dict[str, Any]:
        return _without_ours(_toml(text, name).unwrap(), TOML_KEY)

    def is_empty(self, text: str) -> bool:
        return not text.strip()


MCP_FILES: Mapping[Syntax, McpFile] = {Syntax.JSON: JsonMcpFile(), Syntax.TOML: TomlMcpFile()}


def _toml(text: str, name: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except ParseError as error:
        raise SettingsError(f"{name}:{error.line}: not valid TOML; {json_edit.UNCHANGED}") from error
    except TOMLKitError as error:
        raise SettingsError(f"{name}: not valid TOML; {json_edit.UNCHANGED}") from error


def _checked(document: tomlkit.TOMLDocument, wanted: dict[str, Any], name: str) -> str:
    """Return the text, if it says what is wanted: a file may be written in ways that cannot be edited safely."""
    text = tomlkit.dumps(document)
    if _toml(text, name).unwrap() != wanted:
        raise SettingsError(f"{name}: [{TOML_KEY}] cannot be edited; the file was not changed")
    return text


def _ours(document: dict[str, Any], key: str, name: str) -> Entry | None:
    servers = document.get(key, {})
    if not isinstance(servers, dict):
        raise SettingsError(f"{name}: {key} must be a table; {json_edit.UNCHANGED}")
    entry = servers.get(NAME)
    if entry is not None and not _is_ours(entry):
        raise SettingsError(f"{name}: {key}.{NAME} is another server; rename it first, the file was not changed")
    return entry


def _is_ours(entry: object) -> bool:
    """Return whether an entry starts `meeseeks`, or calls the `/mcp` of a service."""
    if not isinstance(entry, dict):
        return False
    command, url = entry.get("command"), entry.get("url")
    if isinstance(command, str):
        return re.search(rf"(^|[/\\]){NAME}(\.exe)?$", command) is not None
    return isinstance(url, str) and url.endswith("/mcp")


def _without_ours(document: dict[str, Any], key: str) -> dict[str, Any]:
    servers = {name: entry for name, entry in document.get(key, {}).items() if name != NAME}
    return {**{name: value for name, value in document.items() if name != key}, **({key: servers} if servers else {})}
