"""Current settings: the file and saved settings merged into a snapshot that is replaced as a whole.

Precedence, lowest first: defaults, file, saved, the agent's table in the file, saved for the agent. A request uses one
snapshot throughout. Everything runs on one event loop, except for reading files.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog
from pydantic import ValidationError

from hooks.contract import Reason
from worker.domain.errors import QueueError, SettingsConflict, SettingsError

from .file import Layer, Origin, describe_errors, invalid_keys, merged, near_match, source_of, usable_values
from .former_keys import RENAMED, current_keys
from .injection import InjectionConfig, SavedSettings, Settings
from .service import ServiceSettings

log = structlog.get_logger()

ATTEMPTS = 5
"""Attempts to save a change while others change settings, too."""

GENERAL = "memory_injection"
NO_STORE = (
    "settings cannot be saved without a running service; start it with `meeseeks start`, or edit the settings file"
)
_CREDENTIALS = re.compile(r"//[^/@]*@")


class OverrideStore(Protocol):
    """Saved settings shared by all workers; methods raise `QueueError`."""

    async def read(self, known: int) -> SavedSettings | None:
        """Return the saved settings, or `None` if their version is `known`."""
        ...

    async def write(self, expected: int, saved: SavedSettings) -> bool:
        """Save if the stored version is `expected`; return whether it was."""
        ...


@dataclass(frozen=True, slots=True)
class RefusedSettings:
    """A saved value that is invalid and therefore ignored."""

    table: str
    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All settings at one moment; `refused` lists the values of `saved` that are ignored."""

    settings: Settings
    saved: SavedSettings
    layers: Mapping[str, tuple[Layer, ...]]
    configs: Mapping[str, InjectionConfig]
    refused: tuple[RefusedSettings, ...] = ()

    def for_agent(self, agent_id: str) -> InjectionConfig:
        return self.configs.get(_table(agent_id)) or self.configs[GENERAL]

    def layers_of(self, agent_id: str | None) -> tuple[Layer, ...]:
        return self.layers.get(_table(agent_id), self.layers[GENERAL])

    @property
    def agents(self) -> list[str]:
        """Agents with their own values."""
        named = {name for name, layer in self.settings.file.agents.items() if layer.values}
        return sorted(named | set(self.saved.agents))

    def own_keys(self, agent_id: str) -> list[str]:
        """Return the keys that an agent does not share with all."""
        own = (Origin.AGENT_FILE, Origin.AGENT_SAVED)
        return sorted({key for layer in self.layers_of(agent_id) if layer.origin in own for key in layer.values})


def _usable(values: Mapping[str, Any], table: str) -> tuple[Layer, list[str]]:
    """Return values to save, and warnings. Raise `SettingsError` for a key of `[service]`, which cannot be saved."""
    misplaced = (set(values) & set(ServiceSettings.model_fields)) - set(InjectionConfig.model_fields)
    if misplaced:
        key = min(misplaced)
        raise SettingsError(f"{key}: is a key of [service]; write it into the settings file and restart the service")
    return usable_values(Layer(Origin.SAVED, values), table)


def _table(agent_id: str | None) -> str:
    return GENERAL if agent_id is None else f"agents.{agent_id}"


def snapshot(settings: Settings, saved: SavedSettings) -> Snapshot:
    """Merge all settings, ignoring invalid saved values, such as those of another version."""
    refused: list[RefusedSettings] = []
    file, empty = settings.file, Layer(Origin.AGENT_FILE)
    base = (file.memory_injection,)
    general = (*base, _valid_layer(Origin.SAVED, GENERAL, base, saved.general, refused))
    layers: dict[str, tuple[Layer, ...]] = {GENERAL: general}
    for name in sorted({*file.agents, *saved.agents}):
        under = (*general, file.agents.get(name, empty))
        own = _valid_layer(Origin.AGENT_SAVED, _table(name), under, saved.agents.get(name, {}), refused)
        layers[_table(name)] = (*under, own)
    try:
        configs = {name: InjectionConfig.model_validate(merged(stack)) for name, stack in layers.items()}
    except ValidationError:
        # the file alone is valid, so a saved value conflicts with one in the file
        everything = RefusedSettings(GENERAL, "", "ignoring saved settings because they conflict with the file")
        return replace(snapshot(settings, SavedSettings()), saved=saved, refused=(everything,))
    return Snapshot(settings, saved, layers, configs, tuple(refused))


def _valid_layer(
    origin: Origin, name: str, under: Sequence[Layer], values: Mapping[str, Any], refused: list[RefusedSettings]
) -> Layer:
    """Return a layer of the saved `values` that are valid on top of `under`; add the others to `refused`."""
    kept = current_keys(values)
    while kept:
        layer = Layer(origin, kept)
        try:
            InjectionConfig.model_validate(merged([*under, layer]))
        except ValidationError as error:
            wrong = invalid_keys(error) & set(kept) or set(kept)
            text = "; ".join(describe_errors(error, InjectionConfig, name, [layer]))
            refused += [RefusedSettings(name, key, text) for key in sorted(wrong)]
            kept = {key: value for key, value in kept.items() if key not in wrong}
        else:
            return layer
    return Layer(origin)


class LiveSettings:
    """Holds the current snapshot and changes it; without a `store`, nothing can be saved."""

    def __init__(self, settings: Settings, store: OverrideStore | None = None) -> None:
        self._started = settings
        self._store = store
        self._now = snapshot(settings, SavedSettings())
        self._faults: dict[str, str] = {}
        self._needs_restart: list[str] = []
        self._changing = asyncio.Lock()
        for warning in settings.warnings:
            log.warning("settings_warning", warning=warning)

    def for_agent(self, agent_id: str) -> InjectionConfig:
        """Return the settings for a request of an agent."""
        return self._now.for_agent(agent_id)

    def report(self, source: str, fault: str | None) -> None:
        """Record why `source` (file, prompts, saved) cannot be used, or `None` once it can."""
        if self._faults.get(source) == fault:
            return
        if fault is None:
            del self._faults[source]
            log.info("change_accepted", source=source)
        else:
            self._faults[source] = fault
            log.warning("change_rejected", source=source, fault=fault, kept="last good values")

    async def reload(self) -> None:
        """Read the file again; if it is invalid, report that and keep the current settings."""
        read = self._now.settings.reload
        if read is None:
            return
        try:
            settings = await asyncio.to_thread(read)
        except SettingsError as error:
            self.report("file", str(error))
            return
        self.report("file", None)
        for warning in sorted(set(settings.warnings) - set(self._now.settings.warnings)):
            log.warning("settings_warning", warning=warning)
        self._note_restart(settings.service)
        self._take(snapshot(settings, self._now.saved), "file")

    async def refresh(self) -> None:
        """Load settings saved by any worker, or restore them if Redis has lost them; raise `QueueError`."""
        if self._store is None:
            return
        found = await self._store.read(self._now.saved.version)
        if found is None:
            return
        known = self._now.saved
        if found.version < known.version:
            if await self._store.write(found.version, known):
                log.warning("saved_settings_restored", version=known.version, found=found.version)
        elif found.version > known.version:
            self._take(snapshot(self._now.settings, found), "saved")

    async def patch(
        self, agent_id: str | None, values: Mapping[str, Any], unset: Iterable[str] = (), version: int | None = None
    ) -> list[str]:
        """Save `values` and delete the keys in `unset`, for one agent or for all; return warnings.

        Raise `SettingsError` and change nothing if a value is invalid, `SettingsConflict` if anything was saved since
        `version`.
        """
        table, gone = _table(agent_id), {RENAMED.get(key, key) for key in unset}
        cleaned, warnings = _usable(values, table)
        unknown = gone - set(InjectionConfig.model_fields) - set(self._own(self._now.saved, agent_id))
        if unknown:
            key = min(unknown)
            raise SettingsError(f"{table}.{key}: unknown key{near_match(key, InjectionConfig.model_fields)}")
        await self._change(agent_id, cleaned.values, gone, version)
        return warnings

    async def replace(self, agent_id: str | None, values: Mapping[str, Any], version: int | None = None) -> list[str]:
        """Save `values` and delete everything else that was saved, in one step; see `patch`."""
        cleaned, warnings = _usable(values, _table(agent_id))
        await self._change(agent_id, cleaned.values, None, version)
        return warnings

    async def reset(self, agent_id: str | None) -> None:
        """Delete everything saved for the agent, or the values saved for all agents if it is `None`."""
        await self._change(agent_id, {}, None)

    async def _change(
        self, agent_id: str | None, values: Mapping[str, Any], unset: set[str] | None, version: int | None = None
    ) -> None:
        if self._store is None:
            raise SettingsError(NO_STORE)
        async with self._changing:  # attempts are for changes of other processes only
            for _ in range(ATTEMPTS):
                if await self._changed(self._store, agent_id, values, unset, version):
                    return
        raise QueueError(Reason.BUSY, "the settings are being changed by others; try again")

    async def _changed(
        self,
        store: OverrideStore,
        agent_id: str | None,
        values: Mapping[str, Any],
        unset: set[str] | None,
        version: int | None,
    ) -> bool:
        """Save a change, and return whether nobody else saved one meanwhile."""
        await self.refresh()
        before = self._now
        if version is not None and version != before.saved.version:
            raise SettingsConflict("others have changed the saved settings; read them again before you change them")
        own = self._own(before.saved, agent_id) if unset is not None else {}
        kept = {key: value for key, value in own.items() if key not in (unset or ())}
        after = self._checked(before, agent_id, {**kept, **values}, set(values))
        if not await store.write(before.saved.version, after.saved):
            return False
        self._take(after, "saved")
        return True

    @staticmethod
    def _own(saved: SavedSettings, agent_id: str | None) -> Mapping[str, Any]:
        return saved.general if agent_id is None else saved.agents.get(agent_id, {})

    def _checked(self, before: Snapshot, agent_id: str | None, own: Mapping[str, Any], changed: set[str]) -> Snapshot:
        """Return the snapshot with `own` saved; raise `SettingsError` if that makes any value invalid."""
        table = _table(agent_id)
        after = snapshot(before.settings, _with(before.saved, agent_id, own))
        known = {(refused.table, refused.key) for refused in before.refused}
        wrong = [
            refused.text
            for refused in after.refused
            if (refused.table, refused.key) not in known or (refused.table == table and refused.key in changed)
        ]
        if wrong:
            raise SettingsError("\n".join(dict.fromkeys(wrong)))
        plain = after.configs[table if table in after.configs else GENERAL].model_dump(mode="json")
        normal = {key: plain[key] if key in changed else value for key, value in own.items()}
        return replace(after, saved=_with(before.saved, agent_id, normal))

    def _take(self, after: Snapshot, source: str) -> None:
        before = self._now
        self._now = after
        refused = "; ".join(dict.fromkeys(entry.text for entry in after.refused)) or None
        self.report("saved", refused)
        changed = sorted(name for name in {*before.configs, *after.configs} if _differs(name, before, after))
        if changed:
            version = after.configs[GENERAL].version
            log.info("settings_changed", source=source, tables=changed, version=version, saved=after.saved.version)

    def _note_restart(self, service: ServiceSettings) -> None:
        running = self._started.service
        needs = [key for key in ServiceSettings.model_fields if getattr(service, key) != getattr(running, key)]
        if needs and needs != self._needs_restart:
            log.warning("settings_need_restart", keys=needs)
        self._needs_restart = needs

    def status(self) -> dict[str, Any]:
        """Return problems with the sources, keys that need a restart, and the current versions."""
        return {
            "version": self._now.configs[GENERAL].version,
            "saved_version": self._now.saved.version,
            "faults": dict(self._faults),
            "warnings": list(self._now.settings.warnings),
            "needs_restart": [f"service.{key}" for key in self._needs_restart],
        }

    def view(self, agent_id: str | None = None) -> dict[str, Any]:
        """Return every value for an agent, or for all agents, with its origin; secrets are hidden."""
        now = self._now
        config = now.configs[GENERAL] if agent_id is None else now.for_agent(agent_id)
        overridden = bool(now.saved.general) if agent_id is None else agent_id in now.agents
        return {
            **self.status(),
            "agent": agent_id,
            "version": config.version,
            "memory_injection_overridden": overridden,
            "memory_injection": _with_inherited(agent_id, config, now.layers_of(agent_id)),
            "agents": {name: {"memory_injection_overridden": True, "keys": now.own_keys(name)} for name in now.agents},
            "service": _values(_without_secrets(self._started.service), self._started.service_layers),
        }


def _with(saved: SavedSettings, agent_id: str | None, own: Mapping[str, Any]) -> SavedSettings:
    """Return the next version of `saved`, with the values of an agent, or of all agents, replaced."""
    if agent_id is None:
        return SavedSettings(saved.version + 1, own, saved.agents)
    agents = {name: values for name, values in saved.agents.items() if name != agent_id}
    return SavedSettings(saved.version + 1, saved.general, {**agents, agent_id: own} if own else agents)


def _differs(name: str, before: Snapshot, after: Snapshot) -> bool:
    return before.configs.get(name, before.configs[GENERAL]) != after.configs.get(name, after.configs[GENERAL])


def _values(plain: Mapping[str, Any], layers: Sequence[Layer]) -> dict[str, dict[str, Any]]:
    found = {}
    for key, value in plain.items():
        layer = source_of(layers, key)
        origin = layer.origin if layer else Origin.DEFAULT
        found[key] = {"value": value, "origin": origin.value, "at": layer.places.get(key) if layer else None}
    return found


def _with_inherited(agent_id: str | None, config: InjectionConfig, layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the values with their sources, and for saved ones what would apply without them."""
    found = _values(config.model_dump(mode="json"), layers)
    if layers[-1].origin is (Origin.SAVED if agent_id is None else Origin.AGENT_SAVED) and layers[-1].values:
        without = InjectionConfig.model_validate(merged(layers[:-1])).model_dump(mode="json")
        inherited = _values(without, layers[:-1])
        for key in layers[-1].values:
            found[key]["inherited"] = inherited[key]
    return found


def _without_secrets(service: ServiceSettings) -> dict[str, Any]:
    plain = service.model_dump(mode="json")
    for name, field in ServiceSettings.model_fields.items():
        if plain[name] and not field.repr:
            plain[name] = "***"
        elif isinstance(plain[name], str):
            plain[name] = _CREDENTIALS.sub("//***@", plain[name])
    return plain
