"""Layers of settings: what each source says, where it says it, and what is wrong with it.

A source is a table of `meeseeks.toml`, the environment, an option of the command, or what was saved in Redis. Values
are merged key by key, later layers winning, and checked against a model only then.
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

from worker.domain.errors import SettingsError
from worker.domain.memory import MemoryType

from .former_keys import RENAMED, current_keys, former_key_warnings

CONFIG_VARIABLE = "MEESEEKS_CONFIG"
FILE_NAME = "meeseeks.toml"
TABLES = ("service", "memory_injection", "agents")

_HEADER = re.compile(r"^\s*\[(\[)?\s*\"?([\w-]+)\"?(?:\s*\.\s*\"?([\w-]+)\"?)?\s*\]")
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
    """Values of one source, not checked yet; `places` says for people where each stands (`meeseeks.toml:3`)."""

    origin: Origin
    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What a settings file says; `path` is where it is, or would be looked for if there is none."""

    path: Path
    exists: bool = False
    service: Layer = Layer(Origin.FILE)
    memory_injection: Layer = Layer(Origin.FILE)
    agents: Mapping[str, Layer] = field(default_factory=dict)


def find_settings_file(environ: Mapping[str, str], path: Path | None) -> tuple[Path, bool]:
    """The file to read, and whether it must exist: `path`, else `MEESEEKS_CONFIG`, else one in the working folder."""
    named = path or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    return (named, True) if named is not None else (Path(FILE_NAME).absolute(), False)


def read_settings_file(path: Path, *, required: bool) -> SettingsFile:
    """What the file says. Raises `SettingsError` naming file and line."""
    if not path.is_file():
        if required:
            raise SettingsError(f"there is no settings file at {path}")
        return SettingsFile(path)
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{path}: {error}") from error
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


def _table(tables: Mapping[str, Any], name: str, lines: "_Lines") -> Layer:
    values = tables.get(name, {})
    if not isinstance(values, dict):
        raise SettingsError(f"{lines.place(name)}: {name} must be a table: [{name}]")
    return Layer(Origin.FILE, values, {key: lines.place(name, key) for key in values})


def _agents(tables: Mapping[str, Any], lines: "_Lines") -> dict[str, Layer]:
    entries = tables.get("agents", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SettingsError(f"{lines.place('agents')}: agents must be tables with an id: [[agents]]")
    agents: dict[str, Layer] = {}
    for number, entry in enumerate(entries):
        name, table = entry.get("id"), f"agents[{number}]"
        if not isinstance(name, str) or not name:
            raise SettingsError(f"{lines.place(table)}: every [[agents]] table needs an id")
        if name in agents:
            raise SettingsError(f"{lines.place(table, 'id')}: there are two [[agents]] tables with the id {name!r}")
        values = {key: value for key, value in entry.items() if key != "id"}
        agents[name] = Layer(Origin.AGENT_FILE, values, {key: lines.place(table, key) for key in values})
    return agents


class _Lines:
    """On which line of a TOML text a key stands; the parser of the standard library does not tell."""

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
        """`meeseeks.toml:3`; the line of the table, or the file alone, where the key's own is not found."""
        bare = table.partition("[")[0]
        for name in ((table, key), (table, ""), (bare, ""), (f"{bare}[0]", "")):
            if name in self._found:
                return f"{self._path}:{self._found[name]}"
        return str(self._path)


def merged(layers: Iterable[Layer]) -> dict[str, Any]:
    """Every key with its last value."""
    return {key: value for layer in layers for key, value in layer.values.items()}


def giving(layers: Sequence[Layer], key: str) -> Layer | None:
    """The layer whose value of `key` counts; `None` for a default."""
    return next((layer for layer in reversed(layers) if key in layer.values), None)


def checked(model: type[Model], name: str, layers: Sequence[Layer]) -> Model:
    """The merged layers as a model. Raises `SettingsError` with one line for every wrong key of the table `name`."""
    try:
        return model.model_validate(merged(layers))
    except ValidationError as error:
        raise SettingsError("\n".join(faults(error, model, name, layers))) from error


def faults(error: ValidationError, model: type[BaseModel], name: str, layers: Sequence[Layer]) -> list[str]:
    """What is wrong, each as `file:line: table.key: message`; never with the value, which may be a secret."""
    found = []
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        key = str(fault["loc"][0]) if fault["loc"] else ""
        layer = giving(layers, key)
        place = layer.places.get(key) if layer else None
        unknown = fault["type"] == "extra_forbidden"
        near = near_match(key, model.model_fields) if len(fault["loc"]) == 1 else ""
        told = f"unknown key{near}" if unknown else fault["msg"]
        path = ".".join(str(part) for part in (name, *fault["loc"]))
        found.append(f"{place}: {path}: {told}" if place else f"{path}: {told}")
    return found


def faulty_keys(error: ValidationError) -> set[str]:
    """The keys that an error names; empty for one about several keys together."""
    return {str(fault["loc"][0]) for fault in error.errors() if fault["loc"]}


def near_match(name: str, known: Iterable[str]) -> str:
    """`; did you mean max_items?`, or nothing when nothing is near."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def usable_values(layer: Layer, name: str) -> tuple[Layer, list[str]]:
    """Return the layer with present keys and known types only, and a warning for whatever was changed."""
    warnings = [f"{_place(layer, key)}{name}.{key} {fate}" for key, fate in former_key_warnings(layer.values)]
    places = {RENAMED.get(key, key): place for key, place in layer.places.items()}
    layer, more = _known_types_only(replace(layer, values=current_keys(layer.values), places=places), name)
    return layer, warnings + more


def _place(layer: Layer, key: str) -> str:
    return f"{layer.places[key]}: " if key in layer.places else ""


def _known_types_only(layer: Layer, name: str) -> tuple[Layer, list[str]]:
    """Return the layer without unknown entries of `pinned_types`, and a warning for each of them."""
    entries = layer.values.get("pinned_types")
    if not isinstance(entries, list | tuple):
        return layer, []
    known = [kind.value for kind in MemoryType]
    unknown = [entry for entry in entries if isinstance(entry, str) and entry not in known]
    place = f"{_place(layer, 'pinned_types')}{name}.pinned_types"
    warnings = [
        f"{place}: {entry!r} is no type of memory and is left out{near_match(entry, known)}" for entry in unknown
    ]
    kept = [entry for entry in entries if entry not in unknown]
    return replace(layer, values={**layer.values, "pinned_types": kept}), warnings
