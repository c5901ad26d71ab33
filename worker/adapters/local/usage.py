"""Usage counts in a file, for commands that run without Redis."""

import asyncio
import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from worker.domain.usage import Usage
from worker.settings.atomic_file import write_atomically

MOST_COUNTED = 10_000
"""Maximum number of counted answers to remember."""

Content = dict[str, Any]


class FileUsage:
    """Implement `worker.ports.state.UsageStore` in one JSON file, locked for changes and replaced atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def count(self, tenant: str, receipt_id: str, used: Mapping[str, bool], at: datetime) -> bool:
        return bool(used) and await asyncio.to_thread(self._count, tenant, receipt_id, used, at)

    async def read(self, tenant: str, ids: Sequence[str]) -> dict[str, Usage]:
        known = await self.read_all(tenant)
        return {key: known[key] for key in ids if key in known}

    async def read_all(self, tenant: str) -> dict[str, Usage]:
        content = await asyncio.to_thread(self._read)
        return {key: _usage(raw) for key, raw in content["tenants"].get(tenant, {}).items()}

    async def forget(self, tenant: str, ids: Sequence[str]) -> None:
        await asyncio.to_thread(self._forget, tenant, ids)

    def _count(self, tenant: str, receipt_id: str, used: Mapping[str, bool], at: datetime) -> bool:
        mark = f"{tenant}\0{receipt_id}"
        with self._changing() as content:
            if mark in content["counted"]:
                return False
            content["counted"] = [*content["counted"], mark][-MOST_COUNTED:]
            counts = content["tenants"].setdefault(tenant, {})
            for key, was in used.items():
                counts[key] = _fields(_usage(counts.get(key, {})).after(was, at))
        return True

    def _forget(self, tenant: str, ids: Sequence[str]) -> None:
        if not self._path.exists():
            return
        with self._changing() as content:
            for key in ids:
                content["tenants"].get(tenant, {}).pop(key, None)

    @contextmanager
    def _changing(self) -> Iterator[Content]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._path.with_name(self._path.name + ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = self._read()
            yield content
            write_atomically(self._path, json.dumps(content))

    def _read(self) -> Content:
        try:
            content: Content = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"tenants": {}, "counted": []}
        return content


def _usage(raw: Mapping[str, Any]) -> Usage:
    times = {key: datetime.fromisoformat(raw[key]) for key in ("last_injected", "last_used") if raw.get(key)}
    return Usage(raw.get("injected", 0), raw.get("used", 0), **times)


def _fields(usage: Usage) -> dict[str, Any]:
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in asdict(usage).items()}
