"""Reading of fields from untrusted events; never raises."""

import hashlib
from typing import Any

from hooks.contract import Scope, clean_text

MOST_KEY_CHARS = 512
"""Maximum length of a session, agent or turn id in the contract."""


ZONE_FIELDS = ("tz", "timezone", "time_zone")


def text(event: Any, *path: str) -> str:
    """Return the text at `path` in nested objects, or an empty text."""
    value = event
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return str(clean_text(value)) if isinstance(value, str) else ""


def key(event: Any, *path: str) -> str:
    """Return the text at `path`, replaced by its hash if it is too long for an id."""
    found = text(event, *path)
    if len(found) <= MOST_KEY_CHARS:
        return found
    return "sha256:" + hashlib.sha256(found.encode()).hexdigest()


def zone_in(event: Any) -> str | None:
    """Return the time zone that an event names, under one of the usual names."""
    return next((zone for name in ZONE_FIELDS if (zone := text(event, name).strip())), None)


def within(scope: Scope, *, project: str = "", user: str = "", agent: str = "", channel: str = "") -> Scope:
    """Fill in fields that `scope` leaves open; those set by the caller's access are kept."""
    said = {"project": project, "user": user, "agent": agent, "channel": channel}
    named = {name: value.strip() for name, value in said.items() if value.strip()}
    return scope.model_copy(update={name: value for name, value in named.items() if getattr(scope, name) is None})
