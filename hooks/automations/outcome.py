"""Results of automations, and how they are merged."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from ..contract.blocks import SEPARATOR
from ..contract.memories import cleaned

BLOCK = "memory_context"
"""Enrichment key of the text to put in front of the worker's message."""

DEEPEST = 32
"""Maximum nesting depth of an enrichment."""


class RunStatus(StrEnum):
    """The status of one automation."""

    FIRED = "fired"
    SILENT = "silent"
    STARTED = "started"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class AutomationRun:
    """The run of one automation; `detail` says why it was silent, failed or skipped."""

    name: str
    status: RunStatus
    detail: str = ""
    elapsed_ms: float = 0.0
    enrichment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """The merged result of a hook point's automations; `fault` says why the registry could not be read."""

    hook_point: str
    runs: tuple[AutomationRun, ...] = ()
    enrichment: Mapping[str, Any] = field(default_factory=dict)
    elapsed_ms: float = 0.0
    fault: str = ""

    def prefix(self, message: str) -> str:
        """Return `message` with the text of the automations in front, if any."""
        block = self.enrichment.get(BLOCK)
        return f"{block}{SEPARATOR}{message}" if block and isinstance(block, str) else message

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        names = ("name", "status", "detail", "elapsed_ms")
        return {
            "hook_point": self.hook_point,
            "enrichment": self.enrichment,
            "runs": [{name: getattr(run, name) for name in names} for run in self.runs],
            "elapsed_ms": self.elapsed_ms,
            "fault": self.fault or None,
        }


class BadOutput(Exception):
    """The output of an automation is invalid; the message says why."""


def parsed(output: bytes) -> object:
    """Parse the output of a script; `None` if empty. Raise `BadOutput` if it is not JSON."""
    text = output.strip()
    if not text:
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadOutput("standard output is not JSON") from error
    return value


def read(result: object) -> tuple[Mapping[str, Any], str]:
    """Return the enrichment, or an empty one and the reason. Raise `BadOutput` if the result is invalid.

    Automations return `{"fire": true, "enrich": {...}}`; `fire` is optional, and `None` or `"fire": false` add nothing.
    """
    if result is None:
        return {}, ""
    if not isinstance(result, Mapping):
        raise BadOutput('the output must be {"fire": true, "enrich": {...}} or empty')
    enrich = result.get("enrich") or {}
    if not isinstance(enrich, Mapping):
        raise BadOutput("enrich must be an object")
    if result.get("fire", True) is not True:
        reason = result.get("reason")
        return {}, reason if isinstance(reason, str) else ""
    return {name: value for name, value in _plain(enrich).items() if value is not None}, ""


def _plain(enrich: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of JSON types with valid Unicode. Raise `BadOutput` if that is impossible."""
    try:
        plain = json.loads(json.dumps(dict(enrich), default=str))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadOutput("enrich is not JSON serializable") from error
    level: list[Any] = [plain]
    for _ in range(DEEPEST):
        parents = (parent for parent in level if isinstance(parent, dict | list))
        level = [part for parent in parents for part in (parent.values() if isinstance(parent, dict) else parent)]
    if level:
        raise BadOutput(f"enrich is nested more than {DEEPEST} levels deep")
    return cast("dict[str, Any]", cleaned(plain))


def merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge enrichments. Under the same key, concatenate texts and lists, merge objects, else keep the last value."""
    result: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            result[name] = _merge_values(result[name], value) if name in result else value
    return result


def _merge_values(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{SEPARATOR}{second}" if first and second else first or second
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return [*first, *second]
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return merged([first, second])
    return second
