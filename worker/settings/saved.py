"""Settings saved at runtime, and the history of who changed them. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from hooks.contract import KeyName, UtcTime, WireModel
from worker.domain.errors import NotFound, SettingsConflict

MOST_CHANGES = 200
MOST_BYTES = 1 << 19
"""Limits of the history; the oldest changes are dropped first, the newest never."""

LOCAL = "local"
"""The author where no token is needed."""

HIDDEN = "***"
"""Stands for a value that holds a secret."""

_MISSING = object()


class Interface(StrEnum):
    """Where a change came from; `queue` is a program that sends jobs itself."""

    HTTP = "http"
    CONSOLE = "console"
    CLI = "cli"
    QUEUE = "queue"


class Author(WireModel):
    """Who changed settings: the name of the token, and the interface."""

    name: KeyName = LOCAL
    via: KeyName = Interface.QUEUE.value


class ChangedValue(WireModel):
    """A value before or after a change: `saved`, or else inherited. A secret is not kept, only that there was one."""

    value: Any
    saved: bool
    hidden: bool = False


class KeyChange(WireModel):
    key: str
    old: ChangedValue
    new: ChangedValue


class SavedChange(WireModel):
    """One change of saved settings, for an agent or for all; its id is the `version` that it made.

    `undoes` is the id of the change that it took back.
    """

    version: int
    at: UtcTime
    agent_id: str | None
    author: Author
    keys: tuple[KeyChange, ...]
    undoes: int | None = None


@dataclass(frozen=True, slots=True)
class SavedSettings:
    """Settings of `[memory_injection]` saved at runtime, for all agents and by agent.

    Every change increments `version`; 0 means that nothing has been saved. The newest change ends `history`.
    """

    version: int = 0
    general: Mapping[str, Any] = field(default_factory=dict)
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    history: tuple[SavedChange, ...] = ()

    def own(self, agent_id: str | None) -> Mapping[str, Any]:
        """Return what is saved for one agent, or for all."""
        return self.general if agent_id is None else self.agents.get(agent_id, {})

    def with_own(self, agent_id: str | None, own: Mapping[str, Any]) -> "SavedSettings":
        """Return the next version, with the values of an agent, or of all agents, replaced."""
        if agent_id is None:
            return replace(self, version=self.version + 1, general=own)
        agents = {name: values for name, values in self.agents.items() if name != agent_id}
        return replace(self, version=self.version + 1, agents={**agents, agent_id: own} if own else agents)

    def with_change(self, change: SavedChange) -> "SavedSettings":
        """Return the same settings with a change added to their history."""
        return replace(self, history=tuple(_bounded([*self.history, change])))


@dataclass(frozen=True, slots=True)
class Edit:
    """What to change: `values` to save, and saved keys to delete before, all of them if `unset` is `None`."""

    agent_id: str | None
    values: Mapping[str, Any]
    unset: frozenset[str] | None = frozenset()
    undoes: int | None = None

    def applied(self, own: Mapping[str, Any]) -> dict[str, Any]:
        kept = {} if self.unset is None else {key: value for key, value in own.items() if key not in self.unset}
        return {**kept, **self.values}


@dataclass(frozen=True, slots=True)
class Values:
    """What was `saved` for one agent or for all, and all values then `in_force` there."""

    saved: Mapping[str, Any]
    in_force: Mapping[str, Any]

    def of(self, key: str, is_secret: Callable[[str, Any], bool]) -> ChangedValue:
        saved = key in self.saved
        value = self.saved[key] if saved else self.in_force.get(key)
        hidden = is_secret(key, value)
        return ChangedValue(value=HIDDEN if hidden else value, saved=saved, hidden=hidden)


def key_changes(old: Values, new: Values, is_secret: Callable[[str, Any], bool]) -> tuple[KeyChange, ...]:
    """Return what differs between the saved values."""
    keys = sorted({*old.saved, *new.saved})
    return tuple(
        KeyChange(key=key, old=old.of(key, is_secret), new=new.of(key, is_secret))
        for key in keys
        if old.saved.get(key, _MISSING) != new.saved.get(key, _MISSING)
    )


def undoing(saved: SavedSettings, version: int) -> Edit:
    """Return the edit that takes a change back. Raise `NotFound`, or `SettingsConflict` if that is not possible."""
    change = next((one for one in saved.history if one.version == version), None)
    if change is None:
        raise NotFound(f"there is no change {version} of the settings, or it is too long ago to be known")
    if (why := why_not_undoable(saved, change)) is not None:
        raise SettingsConflict(f"nothing was undone: {why}")
    values = {one.key: one.old.value for one in change.keys if one.old.saved}
    gone = frozenset(one.key for one in change.keys if not one.old.saved)
    return Edit(change.agent_id, values, gone, version)


def why_not_undoable(saved: SavedSettings, change: SavedChange) -> str | None:
    """Return why a change cannot be undone now and what to do instead, or `None` if it can."""
    keys = {one.key for one in change.keys}
    later = [one for one in _later(saved, change.version) if one.agent_id == change.agent_id]
    for one in reversed(later):
        if again := sorted(keys & {key.key for key in one.keys}):
            if one.undoes == change.version:
                return f"change {change.version} was undone already, by change {one.version}"
            return (
                f"{', '.join(again)} changed again since: change {one.version} by {one.author.name}; "
                "undo that first, or set the value you want"
            )
    own = saved.own(change.agent_id)
    for key in change.keys:
        if key.old.saved and key.old.hidden:
            return f"the former value of {key.key} holds a secret and was not kept; set the value you want"
        if not key.new.hidden and own.get(key.key, _MISSING) != (key.new.value if key.new.saved else _MISSING):
            return f"{key.key} has another value by now; set the value you want"
    return None


def check_version(saved: SavedSettings, version: int | None) -> None:
    """Raise `SettingsConflict`, with what changed and what to do, unless a change is based on what is saved now."""
    if version is None or version == saved.version:
        return
    if version > saved.version:
        raise SettingsConflict(f"there is no version {version} of the saved settings yet; {_read_again(saved)}")
    changed = sorted({key.key for one in _later(saved, version) for key in one.keys})
    names = sorted({one.author.name for one in _later(saved, version)})
    what = f" ({', '.join(changed)}; by {', '.join(names)})" if changed else ""
    raise SettingsConflict(f"the saved settings have changed since version {version}{what}; {_read_again(saved)}")


def _read_again(saved: SavedSettings) -> str:
    return f"read them again, then repeat your change with version {saved.version}"


def _later(saved: SavedSettings, version: int) -> list[SavedChange]:
    return [one for one in saved.history if one.version > version]


def _bounded(history: Iterable[SavedChange]) -> Iterator[SavedChange]:
    """Return the newest changes that fit into the limits, oldest first."""
    kept: list[SavedChange] = []
    room = MOST_BYTES
    for change in reversed(list(history)[-MOST_CHANGES:]):
        room -= len(change.model_dump_json())
        if kept and room < 0:
            break
        kept.append(change)
    return reversed(kept)
