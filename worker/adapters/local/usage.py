"""Usage counts in a file, for commands that run without Redis."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog

from worker.domain.usage import Usage
from worker.settings.atomic_file import locked, write_atomically

log = structlog.get_logger()

MOST_COUNTED = 10_000
"""Maximum number of counted answers to remember."""

DAMAGED = ".damaged"
"""Suffix of the name under which a damaged file is kept."""

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
        content = await asyncio.to_thread(self._read) or _nothing()
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
        with locked(self._path):
            content = self._read()
            if content is None:
                self._path.replace(self._path.with_name(self._path.name + DAMAGED))
            content = content or _nothing()
            yield content
            write_atomically(self._path, json.dumps(content))

    def _read(self) -> Content | None:
        """Return the content, `None` if the file is damaged."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return _nothing()
        except ValueError:
            content = None
        if isinstance(content, dict) and isinstance(content.get("tenants"), dict):
            counted = content.get("counted")
            return {"tenants": content["tenants"], "counted": counted if isinstance(counted, list) else []}
        log.warning("usage_file_damaged", path=str(self._path), kept_as=self._path.name + DAMAGED)
        return None


def _nothing() -> Content:
    return {"tenants": {}, "counted": []}


def _usage(raw: object) -> Usage:
    """Return the counts of a memory, none if its entry is damaged."""
    fields = raw if isinstance(raw, dict) else {}
    try:
        times = {key: datetime.fromisoformat(fields[key]) for key in ("last_injected", "last_used") if fields.get(key)}
        return Usage(int(fields.get("injected", 0)), int(fields.get("used", 0)), **times)
    except (ValueError, TypeError):
        return Usage()


def _fields(usage: Usage) -> dict[str, Any]:
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in asdict(usage).items()}
