"""Receipts as files, for commands that run without Redis."""

import asyncio
import re
from pathlib import Path

from worker.errors import NotFound
from worker.receipt import Receipt

KEPT = 200
"""Receipts that are kept per tenant; the oldest go first."""

_SAFE = re.compile(r"[^A-Za-z0-9_-]")


class FileReceipts:
    """One JSON file per receipt below `folder`, in a folder per tenant."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def write(self, receipt: Receipt) -> None:
        await asyncio.to_thread(self._write, receipt)

    async def read(self, tenant: str, receipt_id: str) -> Receipt:
        return await asyncio.to_thread(self._read, self._path(tenant, receipt_id))

    async def recent(self, tenant: str, limit: int) -> list[Receipt]:
        return await asyncio.to_thread(self._recent, tenant, limit)

    def _path(self, tenant: str, receipt_id: str) -> Path:
        return self._folder / _SAFE.sub("_", tenant) / f"{_SAFE.sub('_', receipt_id)}.json"

    def _write(self, receipt: Receipt) -> None:
        path = self._path(receipt.request.scope.tenant, receipt.id)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(receipt.model_dump_json(), encoding="utf-8")
        for old in self._newest_first(path.parent)[KEPT:]:
            old.unlink(missing_ok=True)

    def _read(self, path: Path) -> Receipt:
        if not path.is_file():
            raise NotFound(f"there is no receipt {path.stem}")
        return Receipt.model_validate_json(path.read_text(encoding="utf-8"))

    def _recent(self, tenant: str, limit: int) -> list[Receipt]:
        return [self._read(path) for path in self._newest_first(self._path(tenant, "x").parent)[:limit]]

    @staticmethod
    def _newest_first(folder: Path) -> list[Path]:
        return sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
