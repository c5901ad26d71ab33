"""Backups of all memories with their dense vectors and a checksum, independent of the store engine.

A backup is a folder, or a `.tar.gz` of one, with `memories.jsonl` and `manifest.json`. A line is a memory with its
tenant (`{"tenant", "memory", "dense"}`, the vector as base64 of little-endian 32-bit floats, and with cues `joint`, the
vector of text and cues, and `cues`, one byte per value), or the id of a memory that was deleted during the backup
(`{"tenant", "forgotten"}`). The last line about a memory applies.
"""

import base64
import hashlib
import json
import os
import shutil
import struct
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any, Self

from pydantic import ValidationError

from hooks.private_files import make_private_folder, private_file
from worker.domain.cues import CueVectors
from worker.domain.errors import StoreError
from worker.domain.memory import Memory, Vector
from worker.domain.pages import Listed
from worker.ports.store_record import StoreRecord
from worker.settings.atomic_file import write_atomically

FORMAT = 1
MEMORIES = "memories.jsonl"
MANIFEST = "manifest.json"
ARCHIVES = (".tar.gz", ".tgz")
CHUNK = 1 << 20
COMPRESSION = 3
"""Vectors hardly compress, so a higher level only costs time."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Metadata of a backup; `sha256` is the checksum of its lines."""

    created_at: str
    record: dict[str, Any]
    memories: int
    lines: int
    sha256: str
    format: int = FORMAT

    @property
    def made_by(self) -> StoreRecord | None:
        return StoreRecord.parse(self.record)


class BackupWriter:
    """Writes a backup next to its target and moves it there when it is complete. Blocks; raises `StoreError`."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._folder: Path | None = None
        self._lines = 0
        self._hash = hashlib.sha256()
        self._stream: IO[bytes] | None = None

    def begin(self) -> None:
        """Raise `StoreError` if the target exists."""
        if self._target.exists():
            raise StoreError(f"{self._target} already exists; choose another path")
        try:
            make_private_folder(self._target.parent)
            self._folder = Path(mkdtemp(dir=self._target.parent, prefix=f".{self._target.name}."))
            self._stream = os.fdopen(private_file(self._folder / MEMORIES), "wb")
        except OSError as error:
            raise self._failed(error) from error

    def memories(self, entries: Sequence[Listed]) -> None:
        self._write([_line(entry) for entry in entries])

    def forgotten(self, tenant: str, ids: Sequence[str]) -> None:
        self._write([json.dumps({"tenant": tenant, "forgotten": key}) for key in ids])

    def finish(self, made_by: StoreRecord, memories: int, now: datetime) -> int:
        """Complete the backup and return its size in bytes."""
        manifest = Manifest(now.isoformat(), made_by.dump(), memories, self._lines, self._hash.hexdigest())
        folder = self._begun()
        try:
            self._close()
            write_atomically(folder / MANIFEST, json.dumps(asdict(manifest), indent=1), durable=True)
            if self._target.name.endswith(ARCHIVES):
                return self._archive(folder)
            folder.replace(self._target)
            return sum(path.stat().st_size for path in self._target.iterdir())
        except OSError as error:
            raise self._failed(error) from error

    def abandon(self) -> None:
        """Delete an unfinished backup."""
        if self._stream is not None:
            self._stream.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _archive(self, folder: Path) -> int:
        draft = folder / "archive"
        with (
            os.fdopen(private_file(draft), "wb") as stream,
            tarfile.open(fileobj=stream, mode="w:gz", compresslevel=COMPRESSION) as archive,
        ):
            for name in (MANIFEST, MEMORIES):
                archive.add(folder / name, name)
        if self._target.exists():
            raise FileExistsError(0, "it exists by now; choose another path")
        draft.replace(self._target)
        return self._target.stat().st_size

    def _begun(self) -> Path:
        if self._folder is None:
            raise StoreError("the backup has not begun")
        return self._folder

    def _failed(self, error: OSError) -> StoreError:
        return StoreError(f"cannot write {self._target}: {error.strerror or error}")

    def _write(self, lines: list[str]) -> None:
        data = "".join(line + "\n" for line in lines).encode("utf-8")
        if self._stream is None:
            raise StoreError("the backup has not begun")
        try:
            self._stream.write(data)
        except OSError as error:
            raise self._failed(error) from error
        self._lines += len(lines)
        self._hash.update(data)

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()


@dataclass(frozen=True, slots=True)
class DeletedSince:
    """A memory that was deleted during the backup."""

    tenant: str
    id: str


class BackupReader:
    """Reads a backup after verifying it as a whole. Blocks; raises `StoreError`."""

    def __init__(self, source: Path, manifest: Manifest) -> None:
        self._source = source
        self.manifest = manifest

    @classmethod
    def open(cls, source: Path) -> Self:
        """Read the manifest and verify the checksum."""
        with _faults(source):
            with _member(source, MANIFEST) as stream:
                values = json.loads(stream.read())
            if not isinstance(values, dict) or values.get("format") != FORMAT:
                raise StoreError(f"{source} is not a backup of format {FORMAT}")
            manifest = Manifest(**values)
            with _member(source, MEMORIES) as stream:
                found = _checksum(stream)
        if found != manifest.sha256:
            raise StoreError(f"{source} is damaged: the checksum is {found} instead of {manifest.sha256}")
        return cls(source, manifest)

    def pages(self, size: int) -> Iterator[list[Listed | DeletedSince]]:
        """Read the lines in order, at most `size` at a time."""
        with _faults(self._source), _member(self._source, MEMORIES) as stream:
            lines = iter(stream)
            while page := [_parsed(line) for line in islice(lines, size)]:
                yield page


@contextmanager
def _faults(source: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError, EOFError, tarfile.TarError, zlib.error) as error:
        raise StoreError(f"{source} is not a readable backup") from error


@contextmanager
def _member(source: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a file of the backup, which is a folder or an archive."""
    if source.is_dir():
        with (source / name).open("rb") as stream:
            yield stream
        return
    with tarfile.open(source, "r:gz") as archive:
        member = archive.extractfile(name)
        if member is None:
            raise KeyError(name)
        with member:
            yield member


def _checksum(stream: IO[bytes]) -> str:
    found = hashlib.sha256()
    while data := stream.read(CHUNK):
        found.update(data)
    return found.hexdigest()


def _line(entry: Listed) -> str:
    left_out = {name for name in ("cues", "pinned") if not getattr(entry.memory, name)}
    values: dict[str, Any] = {
        "tenant": entry.tenant,
        "memory": entry.memory.model_dump(mode="json", exclude=left_out),
    }
    if entry.dense is not None:
        values["dense"] = _packed(entry.dense)
    if entry.cues is not None:
        values |= {"joint": _packed(entry.cues.joint), "cues": base64.b64encode(entry.cues.rows).decode("ascii")}
    return json.dumps(values, ensure_ascii=True)


def _packed(vector: Vector) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")


def _parsed(line: bytes) -> Listed | DeletedSince:
    try:
        values = json.loads(line)
        if "forgotten" in values:
            return DeletedSince(values["tenant"], values["forgotten"])
        joint = _vector(values.get("joint"))
        cues = None if joint is None else CueVectors(joint, base64.b64decode(values["cues"]))
        return Listed(values["tenant"], Memory.model_validate(values["memory"]), _vector(values.get("dense")), cues)
    except (ValueError, KeyError, TypeError, struct.error, ValidationError) as error:
        raise StoreError("the backup contains an invalid memory") from error


def _vector(text: str | None) -> Vector | None:
    if text is None:
        return None
    data = base64.b64decode(text)
    return struct.unpack(f"<{len(data) // 4}f", data)
