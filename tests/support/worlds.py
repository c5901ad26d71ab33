"""Parts of labelled worlds, for tests that need real tasks and memories, but not all of them."""

import json
from pathlib import Path
from typing import Any

from worker.tuning.labelled_worlds import ABOUT, CUES, MEMORIES, TASKS

Line = dict[str, Any]


def copy_part(world: Path, folder: Path, *, every: int, memories: int, cues: int = 6) -> Path:
    """Copy a world's folder into `folder`: every so many-th task, what it names, and other memories up to a number.

    Of each memory, at most so many cues are kept.
    """
    tasks = _read(world / TASKS)[::every]
    known = {line["id"]: line for line in _read(world / MEMORIES)}
    kept = _with_targets({key for task in tasks for key in _named(task)}, known)
    for key in known:
        if len(kept) < memories:
            kept = _with_targets(kept | {key}, known)
    copied = folder / world.name
    copied.mkdir(parents=True)
    _write(copied / TASKS, tasks)
    _write(copied / MEMORIES, [line for key, line in known.items() if key in kept])
    if (world / CUES).is_file():
        held = [line for line in _read(world / CUES) if line["id"] in kept]
        _write(copied / CUES, [{**line, "cues": line["cues"][:cues]} for line in held])
    if (world / ABOUT).is_file():
        (copied / ABOUT).write_bytes((world / ABOUT).read_bytes())
    return copied


def _named(task: Line) -> set[str]:
    return {key for label in ("essential", "useful", "forbidden") for key in task.get(label, ())}


def _with_targets(keys: set[str], known: dict[str, Line]) -> set[str]:
    """Add the memories to which these relate, and those to which they relate in turn."""
    found, waiting = set[str](), list(keys)
    while waiting:
        key = waiting.pop()
        if key not in found and key in known:
            found.add(key)
            waiting += [relation["target"] for relation in known[key].get("relations") or ()]
    return found


def _read(file: Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _write(file: Path, lines: list[Line]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
