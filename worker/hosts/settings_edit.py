"""Installing and removing hooks in the text of a host's settings file, keeping everything else byte for byte.

Our handlers are recognized by what they call: `meeseeks-hook HOST`, or the host's endpoint.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from worker.domain.deadline import DEFAULT_HOOK_DEADLINE_MS
from worker.domain.errors import SettingsError

from . import json_edit
from .profile import HostEvent, HostProfile

HOOKS = "hooks"
GRACE_MS = 1_000
"""How much longer the host waits than the hook's deadline."""

EMPTY = "{}\n"
"""Initial contents of a new file."""

Handler = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HandlerKind:
    """How the host calls the service: over HTTP if it supports that and `url` is set, otherwise by a command."""

    command: str
    url: str | None = None
    deadline_ms: int = DEFAULT_HOOK_DEADLINE_MS

    @property
    def timeout_s(self) -> int:
        """The host's timeout in whole seconds."""
        return -(-(self.deadline_ms + GRACE_MS) // 1000)


@dataclass(frozen=True, slots=True)
class InstalledHandler:
    """One of our handlers in a settings file."""

    event: str
    matcher: str | None
    handler: Handler


def wanted(host: HostProfile, way: HandlerKind) -> dict[str, list[dict[str, Any]]]:
    """Return the required groups of handlers by event."""
    return {event.name: [_group(event, way)] for event in host.events if event.installed}


def _group(event: HostEvent, way: HandlerKind) -> dict[str, Any]:
    over_http = event.over_http and way.url is not None
    handler = _http_handler(way) if over_http else _command_handler(way)
    return {**({"matcher": event.matcher} if event.matcher else {}), "hooks": [handler]}


def _command_handler(way: HandlerKind) -> Handler:
    return {"type": "command", "command": way.command, "timeout": way.timeout_s}


def _http_handler(way: HandlerKind) -> Handler:
    return {
        "type": "http",
        "url": way.url,
        "timeout": way.timeout_s,
        "headers": {"Authorization": "Bearer $MEESEEKS_TOKEN"},
        "allowedEnvVars": ["MEESEEKS_TOKEN"],
    }


def is_ours(handler: object, host: HostProfile) -> bool:
    """Return whether a handler calls this service for this host."""
    if not isinstance(handler, dict):
        return False
    command, url = handler.get("command"), handler.get("url")
    name = re.escape(host.name)
    if isinstance(command, str) and re.search(rf"meeseeks-hook(\.exe)?['\"]?\s+{name}(\s|$)", command):
        return True
    return isinstance(url, str) and re.search(rf"/v1/hooks/{name}(\?|$)", url) is not None


def found(text: str, host: HostProfile, name: str) -> list[InstalledHandler]:
    """Return our handlers; raise `SettingsError` if the file is invalid."""
    return [
        InstalledHandler(event, _matcher(group), handler)
        for event, groups in _events(json_edit.parsed(text, name), name).items()
        for group in groups
        for handler in _handlers(group)
        if is_ours(handler, host)
    ]


def install(text: str, host: HostProfile, way: HandlerKind, name: str) -> str:
    """Install the hooks, without a change if they are already installed; raise `SettingsError` like `found`."""
    groups = wanted(host, way)
    there = [(one.event, one.matcher, one.handler) for one in found(text, host, name)]
    need = [(event, _matcher(group), group["hooks"][0]) for event, [group] in groups.items()]
    if sorted(there, key=str) == sorted(need, key=str):
        return text
    text = _without_ours(text, host, name) if there else text
    if json_edit.find(text, (HOOKS,)) is None:
        return json_edit.add(text, (), groups, HOOKS)
    for event, [group] in groups.items():
        if json_edit.find(text, (HOOKS, event)) is None:
            text = json_edit.add(text, (HOOKS,), [group], event)
        else:
            text = json_edit.add(text, (HOOKS, event), group)
    return text


def uninstall(text: str, host: HostProfile, name: str) -> str:
    """Remove our hooks and whatever becomes empty; raise `SettingsError` like `found`."""
    return _without_ours(text, host, name) if found(text, host, name) else text


def same_but_for_ours(text: str, before: str, host: HostProfile, name: str) -> bool:
    """Return whether `text` is equivalent to `before` except for our hooks."""
    return _pruned(json_edit.parsed(uninstall(text, host, name), name)) == _pruned(json_edit.parsed(before, name))


def _pruned(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without empty hooks."""
    hooks = document.get(HOOKS)
    if not isinstance(hooks, dict):
        return document
    kept = {event: groups for event, groups in hooks.items() if groups != []}
    return {**{key: value for key, value in document.items() if key != HOOKS}, **({HOOKS: kept} if kept else {})}


def _without_ours(text: str, host: HostProfile, name: str) -> str:
    touched = {one.event for one in found(text, host, name)}
    for event in touched:
        text = _without_handlers(text, host, event)
        if _is_empty(text, (HOOKS, event)):
            text = _drop(text, (HOOKS,), event)
    return _drop(text, (), HOOKS) if touched and _is_empty(text, (HOOKS,)) else text


def _without_handlers(text: str, host: HostProfile, event: str) -> str:
    """Remove our handlers and groups that become empty, last first so that positions stay valid."""
    groups = json_edit.find(text, (HOOKS, event))
    count = len(list(json_edit.parts(text, groups.start))) if groups else 0
    for place in reversed(range(count)):
        text = _without_group(text, host, event, place)
    return text


def _without_group(text: str, host: HostProfile, event: str, place: int) -> str:
    group = _item(text, (HOOKS, event), place)
    document = json_edit.parsed(text[group.start : group.end], event)
    handlers = _handlers(document)
    ours = [number for number, handler in enumerate(handlers) if is_ours(handler, host)]
    if ours and len(ours) == len(handlers):
        return json_edit.remove(text, (HOOKS, event), group)
    for number in reversed(ours):
        inside = text[group.start : group.end]
        inside = json_edit.remove(inside, ("hooks",), _item(inside, ("hooks",), number))
        text = text[: group.start] + inside + text[group.end :]
        group = _item(text, (HOOKS, event), place)
    return text


def _item(text: str, path: json_edit.Path, place: int) -> json_edit.Part:
    return list(json_edit.parts(text, json_edit.at(text, path).start))[place]


def _is_empty(text: str, path: json_edit.Path) -> bool:
    part = json_edit.find(text, path)
    return part is not None and not list(json_edit.parts(text, part.start))


def _drop(text: str, path: json_edit.Path, key: str) -> str:
    part = json_edit.find(text, (*path, key))
    return text if part is None else json_edit.remove(text, path, part)


def _events(document: Mapping[str, Any], name: str) -> dict[str, list[Any]]:
    hooks = document.get(HOOKS, {})
    if not isinstance(hooks, dict):
        raise SettingsError(f"{name}: hooks must be an object; {json_edit.UNCHANGED}")
    for event, groups in hooks.items():
        if not isinstance(groups, list):
            raise SettingsError(f"{name}: hooks.{event} must be a list; {json_edit.UNCHANGED}")
    return hooks


def _handlers(group: object) -> list[Any]:
    handlers = group.get("hooks") if isinstance(group, dict) else None
    return handlers if isinstance(handlers, list) else []


def _matcher(group: object) -> str | None:
    matcher = group.get("matcher") if isinstance(group, dict) else None
    return matcher if isinstance(matcher, str) else None


def plugin_names(document: Mapping[str, Any], plugin: str) -> Iterator[str]:
    """Return enabled Claude Code plugins named `<plugin>@<marketplace>`."""
    enabled = document.get("enabledPlugins")
    if isinstance(enabled, dict):
        yield from (name for name, on in enabled.items() if on is True and name.partition("@")[0] == plugin)
