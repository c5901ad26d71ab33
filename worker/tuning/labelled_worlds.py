"""Read labelled worlds: memories, and tasks with the memories each should be given.

A world is a folder with `memories.jsonl` (in the format of `worker.transfer`), `tasks.jsonl` and perhaps `world.json`
with `shared_users`, the owners whose memories everybody may see, and `cues.jsonl` with cues by memory id, read on
request.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hooks.contract import InjectionRequest
from worker.domain.errors import MemoryRejected, SettingsError
from worker.domain.memory import Memory
from worker.domain.validation import describe_faults
from worker.transfer.entries import memory_from

MEMORIES, TASKS, ABOUT, CUES = "memories.jsonl", "tasks.jsonl", "world.json", "cues.jsonl"
UNDATED = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LabelledTask:
    """A request and its labels: ids of memories that must, may and must never be injected."""

    key: str
    category: str
    request: InjectionRequest
    essential: frozenset[str]
    useful: frozenset[str]
    forbidden: frozenset[str]

    @property
    def relevant(self) -> frozenset[str]:
        return self.essential | self.useful


@dataclass(frozen=True, slots=True)
class LabelledWorld:
    """Memories and tasks; the tasks are in order of time."""

    name: str
    memories: tuple[Memory, ...]
    tasks: tuple[LabelledTask, ...]
    shared_users: tuple[str, ...]


def read_worlds(folder: Path, *, cues: bool = False) -> tuple[LabelledWorld, ...]:
    """Read a folder of worlds, or a single world's folder, with `cues` with those of `cues.jsonl`.

    Raise `SettingsError` if a world is missing or invalid.
    """
    found = [path for path in (folder, *sorted(folder.glob("*"))) if (path / TASKS).is_file()]
    if not found:
        raise SettingsError(f"no labelled world in {folder}: no folder with {TASKS}")
    return tuple(read_world(path, cues=cues) for path in found)


def read_world(folder: Path, *, cues: bool = False) -> LabelledWorld:
    """Read the world in `folder`, with `cues` with those of `cues.jsonl`. Raise `SettingsError` if it is invalid."""
    try:
        lines = _lines(folder / CUES) if cues and (folder / CUES).is_file() else ()
        written = {line["id"]: line["cues"] for line in lines}
        memories = ({**line, **_cues_of(line, written)} for line in _lines(folder / MEMORIES))
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8")) if (folder / ABOUT).is_file() else {}
        return _world(folder.name, memories, _lines(folder / TASKS), about.get("shared_users", ()))
    except (OSError, ValueError, KeyError, MemoryRejected, ValidationError) as error:
        raise SettingsError(f"{folder}: {_message(error)}") from error


def _cues_of(line: Mapping[str, Any], written: Mapping[str, list[str]]) -> dict[str, Any]:
    return {"cues": written[line["id"]]} if line["id"] in written else {}


def read_cases(path: Path) -> LabelledWorld:
    """Read a world from one JSON Lines file: lines with a `message` are tasks, the others memories.

    `scope`, `now` and `category` are optional. Raise `SettingsError` if the file is invalid.
    """
    try:
        lines = list(_lines(path))
        tasks = [{"scope": {}, "now": None, "category": "case", **line} for line in lines if "message" in line]
        if not tasks:
            raise SettingsError(f"{path}: no line has a message; add at least one task")
        return _world(path.stem, (line for line in lines if "message" not in line), tasks, ())
    except (OSError, ValueError, TypeError, KeyError, MemoryRejected, ValidationError) as error:
        raise SettingsError(f"{path}: {_message(error)}") from error


def _message(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return describe_faults(error)
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _world(
    name: str, memories: Iterable[Mapping[str, Any]], tasks: Iterable[Mapping[str, Any]], shared_users: Iterable[str]
) -> LabelledWorld:
    stored = tuple(memory_from(raw, UNDATED) for raw in memories)
    asked = sorted((_task(name, raw) for raw in tasks), key=lambda task: (task.request.now or UNDATED, task.key))
    return LabelledWorld(name, stored, tuple(asked), tuple(shared_users))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def _task(world: str, raw: Mapping[str, Any]) -> LabelledTask:
    scope = {key: value for key, value in raw["scope"].items() if value is not None}
    request = InjectionRequest.model_validate(
        {
            "session_id": f"{world}-{scope.get('user', '')}-{scope.get('channel', '')}",
            "agent_id": scope.get("agent", "main"),
            "turn_id": raw["id"],
            "message": raw["message"],
            "task_description": raw.get("task_description"),
            "recent_messages": raw.get("recent_turns", []),
            "source": raw.get("source", "user"),
            "scope": {**scope, "tenant": world},
            "now": raw["now"],
        }
    )
    labels = (frozenset(raw.get(name, ())) for name in ("essential", "useful", "forbidden"))
    return LabelledTask(raw["id"], raw["category"], request, *labels)
