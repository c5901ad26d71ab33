"""Reads fields of events that may hold anything. Pure, never raises."""

import hashlib
import re
from typing import Any

from hooks.contract import Scope, clean_text

MOST_KEY_CHARS = 512
"""The longest session, agent or turn id that the contract takes."""


def text(event: Any, *path: str) -> str:
    """The text at `path` in nested objects, `""` where there is none."""
    value = event
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return str(clean_text(value)) if isinstance(value, str) else ""


def key(event: Any, *path: str) -> str:
    """As `text`, short enough to be an id: a longer one is replaced by its hash."""
    found = text(event, *path)
    if len(found) <= MOST_KEY_CHARS:
        return found
    return "sha256:" + hashlib.sha256(found.encode()).hexdigest()


def within(scope: Scope, *, project: str = "", user: str = "", agent: str = "", channel: str = "") -> Scope:
    """`scope` with what the event says of the rest; what the caller's access says stands."""
    said = {"project": project, "user": user, "agent": agent, "channel": channel}
    return scope.model_copy(
        update={name: value for name, value in said.items() if value and getattr(scope, name) is None}
    )


def folder_name(path: str) -> str:
    """The last part of a path of any system: what a project is called where nobody names it."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1].rstrip(":")
