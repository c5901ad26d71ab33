"""What came from which file, so that importing an edited file updates the memories of its former lines.

A file in the data folder keeps the ids of each imported file's memories. A line that was changed replaces its memory;
one that is gone is offered as outdated.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from worker.domain.errors import MeeseeksError
from worker.operations.client import OperationClient
from worker.operations.registry import SHOW, UPDATE
from worker.settings.atomic_file import write_atomically
from worker.text.rendering import flatten

from .import_report import MAX_TEXT_CHARS, ImportReport

MAX_IDS = 20_000
"""Files with more memories are not compared with what they were."""

MAX_COMPARED = 300
SIMILAR = 0.6
"""Share of equal words from which a new line counts as the changed form of a former one."""

BUDGET_S = 30.0


@dataclass
class Place:
    """An imported file. `ids` are those of its memories, `offered` those of lines that are gone, still current."""

    path: str
    ids: set[str] = field(default_factory=set)
    offered: set[str] = field(default_factory=set)


class Places:
    """The places of a tenant's imports."""

    def __init__(self, folder: Path, tenant: str) -> None:
        self._folder = folder / "imports"
        self._tenant = tenant

    def place(self, path: Path) -> Place:
        """Return what is known about a file."""
        return self._read(self._file(str(path.resolve()))) or Place(str(path.resolve()))

    def keep(self, place: Place) -> None:
        """Store what is known about a file. Raise `OSError`."""
        if len(place.ids) + len(place.offered) > MAX_IDS:
            return
        values = {"tenant": self._tenant, "path": place.path, "ids": sorted(place.ids)}
        write_atomically(self._file(place.path), json.dumps({**values, "offered": sorted(place.offered)}))

    def all(self) -> Iterator[Place]:
        with suppress(OSError):
            for file in sorted(self._folder.iterdir()):
                if (place := self._read(file)) is not None:
                    yield place

    def _file(self, path: str) -> Path:
        name = hashlib.sha256(json.dumps([self._tenant, path]).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._folder / f"{name}.json"

    def _read(self, file: Path) -> Place | None:
        try:
            values = json.loads(file.read_text(encoding="utf-8"))
            if values["tenant"] == self._tenant:
                return Place(values["path"], set(values["ids"]), set(values["offered"]))
        except (OSError, ValueError, KeyError, TypeError):
            pass  # not there, or torn: then nothing is known about the file
        return None


class Comparison:
    """Compares the files of an import with what they were, after their memories have been stored."""

    def __init__(self, backend: OperationClient, tenant: str, places: Places, report: ImportReport) -> None:
        self._backend = backend
        self._tenant = tenant
        self._places = places
        self._report = report

    async def files(self, read: Mapping[Path, dict[str, str] | None], folders: list[Path], *, mark: bool) -> None:
        """Update the memories of changed lines, and offer those of lines that are gone or mark them as outdated.

        `read` has the texts of each file's memories by id, or `None` if it could not be read to its end; `folders` are
        those that were read.
        """
        known = {place.path: place for place in self._places.all()}
        missing = [Path(path) for path in known if Path(path) not in read and _is_in(Path(path), folders)]
        now = {path: texts for path, texts in read.items() if texts is not None} | {path: {} for path in missing}
        held = {path: place.ids for path, place in known.items() if Path(path) not in now}
        elsewhere = set[str]().union(*held.values(), *now.values())
        for path, texts in now.items():
            await self._file(self._places.place(path), texts, elsewhere, mark=mark)

    async def _file(self, known: Place, texts: dict[str, str], elsewhere: set[str], *, mark: bool) -> None:
        former = known.ids | known.offered
        gone = sorted(former - elsewhere)[:MAX_COMPARED]
        added = {key: text for key, text in texts.items() if key not in former}
        back, offered = list(added), set[str]()
        for memory in [found for key in gone if (found := await self._current(key)) is not None]:
            successor = _similar(memory["content"], added)
            if successor is not None or mark:
                added.pop(successor or "", None)
                await self._outdate(known, memory, successor)
            else:
                offered.add(memory["id"])
                self._report.gone.append(_told(known, memory))
        if known.ids:
            await self._revive(back)
        self._places.keep(Place(known.path, set(texts), offered))

    async def _current(self, key: str) -> dict[str, Any] | None:
        """Return a memory that still counts, or `None`."""
        memory = await self._stored(key)
        return memory if memory and not (memory.get("superseded_by") or memory.get("superseded_at")) else None

    async def _stored(self, key: str) -> dict[str, Any] | None:
        with suppress(MeeseeksError):
            found = await self._backend.call(SHOW, {"tenant": self._tenant, "id": key}, budget=BUDGET_S)
            memory: dict[str, Any] = found["memory"]
            return memory
        return None

    async def _outdate(self, known: Place, memory: dict[str, Any], successor: str | None) -> None:
        changes = {"superseded_by": successor, "superseded_at": datetime.now(UTC).isoformat()}
        await self._update(memory["id"], changes)
        self._report.outdated.append(_told(known, memory) | ({"by": successor} if successor else {}))

    async def _revive(self, added: Sequence[str]) -> None:
        """Make memories current again whose lines are back in a file."""
        for key in added[:MAX_COMPARED]:
            memory = await self._stored(key)
            if memory and (memory.get("superseded_by") or memory.get("superseded_at")):
                await self._update(key, {"superseded_by": None, "superseded_at": None})

    async def _update(self, key: str, changes: dict[str, Any]) -> None:
        payload = {"tenant": self._tenant, "id": key, "changes": changes}
        await self._backend.call(UPDATE, payload, budget=BUDGET_S)


def _is_in(path: Path, folders: list[Path]) -> bool:
    return any(path.is_relative_to(folder.resolve()) for folder in folders)


def _similar(text: str, others: Mapping[str, str]) -> str | None:
    """Return the id of the text that has most words in common with `text`, if these are enough."""
    words = text.split()
    best, key = SIMILAR, None
    for other, said in list(others.items())[:MAX_COMPARED]:
        matcher = SequenceMatcher(None, words, said.split(), autojunk=False)
        if matcher.quick_ratio() >= best and (ratio := matcher.ratio()) >= best:
            best, key = ratio, other
    return key


def _told(known: Place, memory: Mapping[str, Any]) -> dict[str, Any]:
    return {"file": Path(known.path).name, "id": memory["id"], "text": flatten(memory["content"], MAX_TEXT_CHARS)}
