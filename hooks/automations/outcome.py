"""What automations bring, and how it is put together. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..blocks import SEPARATOR
from ..memory_contract import cleaned

BLOCK = "memory_context"
"""Key of an enrichment that stands in front of the worker's message."""

DEEPEST = 32
"""Levels of nesting that an enrichment may have."""


class RunStatus(StrEnum):
    """What became of one automation."""

    FIRED = "fired"
    SILENT = "silent"
    STARTED = "started"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class AutomationRun:
    """One automation at one hook point; `detail` says why it was silent, failed or was skipped."""

    name: str
    status: RunStatus
    detail: str = ""
    elapsed_ms: float = 0.0
    enrichment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """What the automations of a hook point brought together; `fault` says why the registry could not be read."""

    hook_point: str
    runs: tuple[AutomationRun, ...] = ()
    enrichment: Mapping[str, Any] = field(default_factory=dict)
    elapsed_ms: float = 0.0
    fault: str = ""

    def prefix(self, message: str) -> str:
        """`message` with what automations put in front of it, or as it is."""
        block = self.enrichment.get(BLOCK)
        return f"{block}{SEPARATOR}{message}" if block and isinstance(block, str) else message

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        names = ("name", "status", "detail", "elapsed_ms")
        return {
            "hook_point": self.hook_point,
            "enrichment": self.enrichment,
            "runs": [{name: getattr(run, name) for name in names} for run in self.runs],
            "elapsed_ms": self.elapsed_ms,
            "fault": self.fault or None,
        }


class BadOutput(Exception):
    """What an automation brought is not what one brings; the message says what is wrong."""


def parsed(output: bytes) -> object:
    """What a script printed: a JSON value, or `None` for nothing. Raises `BadOutput`."""
    text = output.strip()
    if not text:
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadOutput("standard output is not JSON") from error
    return value


def read(brought: object) -> tuple[Mapping[str, Any], str]:
    """The enrichment in what an automation brought, and where there is none, why not. Raises `BadOutput`.

    It brings `{"fire": true, "enrich": {...}}`; `fire` may be left out, `false` or nothing at all mean nothing to add.
    """
    if brought is None:
        return {}, ""
    if not isinstance(brought, Mapping):
        raise BadOutput('it has to bring {"fire": true, "enrich": {...}}, or nothing')
    enrich = brought.get("enrich") or {}
    if not isinstance(enrich, Mapping):
        raise BadOutput("enrich has to be an object")
    if brought.get("fire", True) is not True:
        reason = brought.get("reason")
        return {}, reason if isinstance(reason, str) else ""
    return {name: value for name, value in _plain(enrich).items() if value is not None}, ""


def _plain(enrich: Mapping[str, Any]) -> dict[str, Any]:
    """A copy made of what JSON knows, with every text valid Unicode. Raises `BadOutput` where that cannot be."""
    try:
        plain = json.loads(json.dumps(dict(enrich), default=str))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadOutput("enrich cannot be written as JSON") from error
    level: list[Any] = [plain]
    for _ in range(DEEPEST):
        level = [part for parent in level if isinstance(parent, dict | list) for part in _parts(parent)]
    if level:
        raise BadOutput(f"enrich is nested more than {DEEPEST} levels deep")
    whole: dict[str, Any] = cleaned(plain)
    return whole


def _parts(parent: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return parent.values() if isinstance(parent, dict) else parent


def merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Enrichments in one: under the same key, texts stand one after the other, and so do lists; objects are merged.

    Of other values the last one counts.
    """
    together: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            together[name] = _joined(together[name], value) if name in together else value
    return together


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{SEPARATOR}{second}" if first and second else first or second
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return [*first, *second]
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return merged([first, second])
    return second
