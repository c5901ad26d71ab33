"""Current settings: the file and saved settings merged into a snapshot that is replaced as a whole.

Precedence, lowest first: defaults, file, saved, the agent's table in the file, saved for the agent. A request uses one
snapshot throughout. Everything runs on one event loop, except for reading files.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

import structlog

from hooks.contract import Reason
from worker.domain.errors import QueueError, SettingsError

from .file import Layer, Origin, merged, near_match, source_of, usable_values
from .former_keys import RENAMED
from .injection import InjectionConfig, Settings
from .saved import Author, Edit, SavedChange, SavedSettings, Values, check_version, key_changes, undoing
from .service import ServiceSettings
from .snapshots import GENERAL, Snapshot, snapshot, table_of

log = structlog.get_logger()

NOBODY = Author()

ATTEMPTS = 5
"""Attempts to save a change while others change settings, too."""

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


def _usable(values: Mapping[str, Any], table: str) -> tuple[Layer, list[str]]:
    """Return values to save, and warnings. Raise `SettingsError` for a key of `[service]`, which cannot be saved."""
    misplaced = (set(values) & set(ServiceSettings.model_fields)) - set(InjectionConfig.model_fields)
    if misplaced:
        key = min(misplaced)
        raise SettingsError(f"{key}: is a key of [service]; write it into the settings file and restart the service")
    return usable_values(Layer(Origin.SAVED, values), table)


class LiveSettings:
    """Holds the current snapshot and changes it; without a `store`, nothing can be saved.

    `holds_secret` says of a value as JSON whether the history of changes must not hold it.
    """

    def __init__(
        self,
        settings: Settings,
        store: OverrideStore | None = None,
        holds_secret: Callable[[str], bool] = lambda _: False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._started = settings
        self._store = store
        self._holds_secret = holds_secret
        self._clock = clock
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
        self,
        agent_id: str | None,
        values: Mapping[str, Any],
        unset: Iterable[str] = (),
        version: int | None = None,
        author: Author = NOBODY,
    ) -> list[str]:
        """Save `values` and delete the keys in `unset`, for one agent or for all; return warnings.

        Raise `SettingsError` and change nothing if a value is invalid, `SettingsConflict` if anything was saved since
        `version`.
        """
        table, gone = table_of(agent_id), frozenset(RENAMED.get(key, key) for key in unset)
        cleaned, warnings = _usable(values, table)
        unknown = gone - set(InjectionConfig.model_fields) - set(self._now.saved.own(agent_id))
        if unknown:
            key = min(unknown)
            raise SettingsError(f"{table}.{key}: unknown key{near_match(key, InjectionConfig.model_fields)}")
        edit = Edit(agent_id, cleaned.values, gone)
        await self._change(lambda _: edit, version, author)
        return warnings

    async def replace(
        self,
        agent_id: str | None,
        values: Mapping[str, Any],
        version: int | None = None,
        author: Author = NOBODY,
    ) -> list[str]:
        """Save `values` and delete everything else that was saved, in one step; see `patch`."""
        cleaned, warnings = _usable(values, table_of(agent_id))
        edit = Edit(agent_id, cleaned.values, unset=None)
        await self._change(lambda _: edit, version, author)
        return warnings

    async def reset(self, agent_id: str | None, version: int | None = None, author: Author = NOBODY) -> None:
        """Delete everything saved for the agent, or the values saved for all agents if it is `None`."""
        await self.replace(agent_id, {}, version, author)

    async def undo(self, change: int, author: Author = NOBODY) -> str | None:
        """Take a change back, and return whose it was: an agent's, or `None` for all agents.

        Raise `NotFound` if the change is unknown, `SettingsConflict` if its values have changed since.
        """
        done = await self._change(lambda saved: undoing(saved, change), None, author)
        return done.agent_id

    @property
    def saved(self) -> SavedSettings:
        """Return what is saved, as far as this process knows."""
        return self._now.saved

    @property
    def saved_in_force(self) -> Mapping[str, Any]:
        """Return the values saved for all agents, without those that are ignored because they are invalid."""
        return {
            key: value
            for layer in self._now.layers[GENERAL]
            if layer.origin is Origin.SAVED
            for key, value in layer.values.items()
        }

    async def _change(self, plan: Callable[[SavedSettings], Edit], version: int | None, author: Author) -> Edit:
        """Save what is planned on top of the newest saved settings."""
        if self._store is None:
            raise SettingsError(NO_STORE)
        async with self._changing:  # attempts are for changes of other processes only
            for _ in range(ATTEMPTS):
                await self.refresh()
                before = self._now
                check_version(before.saved, version)
                edit = plan(before.saved)
                after = self._edited(before, edit, author)
                if after is None:
                    return edit
                if await self._store.write(before.saved.version, after.saved):
                    self._take(after, "saved")
                    return edit
        raise QueueError(Reason.BUSY, "the settings are being changed by others; try again")

    def _edited(self, before: Snapshot, edit: Edit, author: Author) -> Snapshot | None:
        """Return the snapshot after a change that stands in its history, or `None` if nothing would change."""
        own = before.saved.own(edit.agent_id)
        after = self._checked(before, edit.agent_id, edit.applied(own), set(edit.values))
        old, new = _values_of(before, edit.agent_id), _values_of(after, edit.agent_id)
        keys = key_changes(old, new, self._is_secret)
        if not keys:
            return None
        change = SavedChange(
            version=after.saved.version,
            at=self._clock(),
            agent_id=edit.agent_id,
            author=author,
            keys=keys,
            undoes=edit.undoes,
        )
        return replace(after, saved=after.saved.with_change(change))

    def _is_secret(self, key: str, value: Any) -> bool:
        field = InjectionConfig.model_fields.get(key)
        return (field is not None and not field.repr) or self._holds_secret(json.dumps(value, ensure_ascii=False))

    def _checked(self, before: Snapshot, agent_id: str | None, own: Mapping[str, Any], changed: set[str]) -> Snapshot:
        """Return the snapshot with `own` saved; raise `SettingsError` if that makes any value invalid."""
        table = table_of(agent_id)
        after = snapshot(before.settings, before.saved.with_own(agent_id, own))
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
        return replace(after, saved=before.saved.with_own(agent_id, normal))

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
        config = now.config_of(agent_id)
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


def _values_of(snap: Snapshot, agent_id: str | None) -> Values:
    return Values(snap.saved.own(agent_id), snap.config_of(agent_id).model_dump(mode="json"))


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
