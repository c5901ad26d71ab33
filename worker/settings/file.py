"""The settings file, and layers of settings that are merged key by key and then validated.

A layer holds the values of one source: a table of `meeseeks.toml`, the environment, command options or saved settings.
Later layers take precedence.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from worker.domain.errors import SettingsError
from worker.domain.memory import MemoryType
from worker.domain.validation import plain_message

from .former_keys import RENAMED, current_keys, former_key_warnings

CONFIG_VARIABLE = "MEESEEKS_CONFIG"
FILE_NAME = "meeseeks.toml"
TABLES = ("service", "memory_injection", "agents")

_HEADER = re.compile(r"^\s*\[(\[)?\s*\"?([\w-]+)\"?(?:\s*\.\s*\"?([\w-]+)\"?)?\s*\]")
_TOML_LINE = re.compile(r"at line (\d+), column \d+\)$")
_KEY = re.compile(r"^\s*\"?([\w-]+)\"?(?:\s*\.\s*\"?([\w-]+)\"?)?\s*=")

Model = TypeVar("Model", bound=BaseModel)


class Origin(StrEnum):
    """Where a value comes from."""

    DEFAULT = "default"
    FILE = "file"
    VARIABLE = "variable"
    OPTION = "option"
    SAVED = "override"
    AGENT_FILE = "agent file"
    AGENT_SAVED = "agent override"


@dataclass(frozen=True, slots=True)
class Layer:
    """Unvalidated values of one source; `places` maps keys to locations such as `meeseeks.toml:3`."""

    origin: Origin
    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """Contents of a settings file; `path` is where it is, or where it would be if it existed."""

    path: Path
    exists: bool = False
    service: Layer = Layer(Origin.FILE)
    memory_injection: Layer = Layer(Origin.FILE)
    agents: Mapping[str, Layer] = field(default_factory=dict)


def find_settings_file(environ: Mapping[str, str], path: Path | None) -> tuple[Path, bool]:
    """Return the file to read and whether it must exist: `path`, `MEESEEKS_CONFIG`, or one in the working folder."""
    named = path or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    return (named, True) if named is not None else (Path(FILE_NAME).absolute(), False)


def read_settings_file(path: Path, *, required: bool) -> SettingsFile:
    """Read a settings file; raise `SettingsError` with file and line if it is wrong."""
    if not path.is_file():
        if required:
            raise SettingsError(f"there is no settings file at {path}")
        return SettingsFile(path)
    text, tables = _parse(path)
    lines = _Lines(path, text)
    for name in tables:
        if name not in TABLES:
            raise SettingsError(f"{lines.place(name)}: unknown table {name}{near_match(name, TABLES)}")
    return SettingsFile(
        path,
        exists=True,
        service=_table(tables, "service", lines),
        memory_injection=_table(tables, "memory_injection", lines),
        agents=_agents(tables, lines),
    )


def _parse(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _TOML_LINE.search(str(error))
        raise SettingsError(f"{path}{f':{line[1]}' if line else ''}: not valid TOML") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not valid UTF-8") from error
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error


def _table(tables: Mapping[str, Any], name: str, lines: "_Lines") -> Layer:
    values = tables.get(name, {})
    if not isinstance(values, dict):
        raise SettingsError(f"{lines.place(name)}: {name} must be a table: [{name}]")
    return Layer(Origin.FILE, values, {key: lines.place(name, key) for key in values})


def _agents(tables: Mapping[str, Any], lines: "_Lines") -> dict[str, Layer]:
    entries = tables.get("agents", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SettingsError(f"{lines.place('agents')}: agents must be a list of tables with an id: [[agents]]")
    agents: dict[str, Layer] = {}
    for number, entry in enumerate(entries):
        name, table = entry.get("id"), f"agents[{number}]"
        if not isinstance(name, str) or not name:
            raise SettingsError(f"{lines.place(table)}: every [[agents]] table needs an id")
        if name in agents:
            raise SettingsError(f"{lines.place(table, 'id')}: two [[agents]] tables have the id {name!r}")
        values = {key: value for key, value in entry.items() if key != "id"}
        agents[name] = Layer(Origin.AGENT_FILE, values, {key: lines.place(table, key) for key in values})
    return agents


class _Lines:
    """Line numbers of the keys of a TOML text, which `tomllib` does not provide."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._found: dict[tuple[str, str], int] = {}
        table, agents = "", 0
        for number, line in enumerate(text.splitlines(), 1):
            if (header := _HEADER.match(line)) and header[3]:
                table = f"{header[2]}.{header[3]}"
                self._found.setdefault((header[2], header[3]), number)
            elif header:
                table = f"{header[2]}[{agents}]" if header[1] else header[2]
                agents += bool(header[1])
                self._found.setdefault((table, ""), number)
            elif key := _KEY.match(line):
                name = (key[1], key[2] or "") if not table else (table, key[1])
                self._found.setdefault(name, number)

    def place(self, table: str, key: str = "") -> str:
        """Return the location of a key (`meeseeks.toml:3`), else that of its table, else the file."""
        bare = table.partition("[")[0]
        for name in ((table, key), (table, ""), (bare, ""), (f"{bare}[0]", "")):
            if name in self._found:
                return f"{self._path}:{self._found[name]}"
        return str(self._path)


def merged(layers: Iterable[Layer]) -> dict[str, Any]:
    return {key: value for layer in layers for key, value in layer.values.items()}


def source_of(layers: Sequence[Layer], key: str) -> Layer | None:
    """Return the layer that provides the value of `key`, or `None` for a default."""
    return next((layer for layer in reversed(layers) if key in layer.values), None)


def checked(model: type[Model], name: str, layers: Sequence[Layer]) -> Model:
    """Validate the merged layers; raise `SettingsError` with one line for each wrong key of the table `name`."""
    try:
        return model.model_validate(merged(layers))
    except ValidationError as error:
        raise SettingsError("\n".join(describe_errors(error, model, name, layers))) from error


def describe_errors(error: ValidationError, model: type[BaseModel], name: str, layers: Sequence[Layer]) -> list[str]:
    """Return each error as `file:line: table.key: message`, without the value, which may be a secret."""
    found = []
    for fault in error.errors(include_url=False, include_input=False):
        key = str(fault["loc"][0]) if fault["loc"] else ""
        layer = source_of(layers, key)
        place = f"{layer.places[key]}: " if layer and key in layer.places else ""
        top_level = len(fault["loc"]) == 1
        near = near_match(key, model.model_fields) if top_level and fault["type"] == "extra_forbidden" else ""
        limits = model.model_fields.get(key, FieldInfo()).metadata if top_level else ()
        path = ".".join(str(part) for part in (name, *fault["loc"]))
        found.append(f"{place}{path}: {plain_message(fault, limits)}{near}")
    return found


def invalid_keys(error: ValidationError) -> set[str]:
    """Return the keys that an error names; none if it concerns several keys together."""
    return {str(fault["loc"][0]) for fault in error.errors() if fault["loc"]}


def near_match(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean max_items?`, or an empty text if no known name is similar."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def usable_values(layer: Layer, name: str) -> tuple[Layer, list[str]]:
    """Return the layer without outdated keys and unknown memory types, and a warning for each of them."""
    warnings = [f"{_place(layer, key)}{name}.{key} {text}" for key, text in former_key_warnings(layer.values)]
    places = {RENAMED.get(key, key): place for key, place in layer.places.items()}
    layer, more = _known_types_only(replace(layer, values=current_keys(layer.values), places=places), name)
    return layer, warnings + more


def _place(layer: Layer, key: str) -> str:
    return f"{layer.places[key]}: " if key in layer.places else ""


def _known_types_only(layer: Layer, name: str) -> tuple[Layer, list[str]]:
    entries = layer.values.get("pinned_types")
    if not isinstance(entries, list | tuple):
        return layer, []
    known = [kind.value for kind in MemoryType]
    unknown = [entry for entry in entries if isinstance(entry, str) and entry not in known]
    place = f"{_place(layer, 'pinned_types')}{name}.pinned_types"
    warnings = [f"{place}: ignoring unknown memory type {entry!r}{near_match(entry, known)}" for entry in unknown]
    kept = [entry for entry in entries if entry not in unknown]
    return replace(layer, values={**layer.values, "pinned_types": kept}), warnings
