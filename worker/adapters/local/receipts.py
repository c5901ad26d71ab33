"""Receipts in files, for commands that run without Redis. Several processes can share a folder."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from worker.domain.errors import BadCursor, NotFound
from worker.domain.receipt import Receipt, ReceiptPage, TurnOf, erased_json, turn_of
from worker.domain.receipt_summary import SummaryPage, summary_of
from worker.settings.atomic_file import write_atomically
from worker.text.file_names import file_name_of

KEPT = 200
"""Maximum receipts per tenant; the oldest are deleted."""


class FileReceipts:
    """One JSON file per receipt, in a subfolder of `folder` per tenant; `ttl_s` seconds of lifetime, if given."""

    def __init__(self, folder: Path, ttl_s: float | None = None) -> None:
        self._folder = folder
        self._ttl_s = ttl_s

    async def write(self, receipt: Receipt) -> None:
        await asyncio.to_thread(self._write, receipt)

    async def read(self, tenant: str, receipt_id: str) -> Receipt:
        receipt = await asyncio.to_thread(_parsed, self._path(tenant, receipt_id))
        if receipt is None:
            raise NotFound(f"there is no receipt {receipt_id}")
        return receipt

    async def recent(self, tenant: str, limit: int, *, offset: int = 0) -> ReceiptPage:
        return await asyncio.to_thread(self._recent, tenant, limit, offset)

    async def several(self, tenant: str, ids: Sequence[str]) -> list[Receipt]:
        paths = [self._path(tenant, one) for one in ids]
        found = await asyncio.to_thread(lambda: [_parsed(path) for path in paths])
        return [receipt for receipt in found if receipt is not None]

    async def summaries(self, tenant: str, limit: int, *, after: str | None = None) -> SummaryPage:
        kept = [summary_of(receipt) for receipt in (await self.recent(tenant, KEPT)).receipts]
        begin = next((number for number, one in enumerate(kept, 1) if one.id == after), None) if after else 0
        if begin is None:
            raise BadCursor("cursor: its request is no longer kept; begin with the newest")
        here = kept[begin : begin + limit]
        return SummaryPage(summaries=tuple(here), cursor=here[-1].id if len(kept) > begin + limit else None)

    async def beginning(self, tenant: str, prefix: str) -> list[str]:
        return await asyncio.to_thread(self._beginning, tenant, prefix)

    def _beginning(self, tenant: str, prefix: str) -> list[str]:
        """Read only files that can be meant: a name without a dot is the id itself."""
        kept = list(_ages(self._path(tenant, "x").parent))[:KEPT]
        meant = [path for path in kept if "." in path.stem or path.stem.startswith(prefix)]
        found = [receipt.id for path in meant if (receipt := _parsed(path)) is not None]
        return [receipt_id for receipt_id in found if receipt_id.startswith(prefix)]

    async def of_turn(self, turn: TurnOf) -> list[Receipt]:
        kept = await self.recent(turn.tenant, KEPT)
        return [receipt for receipt in kept.receipts if turn_of(receipt.request) == turn]

    async def erase(self, tenant: str, gone: Mapping[str, datetime]) -> int:
        return await asyncio.to_thread(self._erase, tenant, gone)

    def _erase(self, tenant: str, gone: Mapping[str, datetime]) -> int:
        changed = 0
        for path in self._path(tenant, "x").parent.glob("*.json"):
            with suppress(FileNotFoundError):  # another process deletes the oldest
                written, stored = path.stat(), path.read_bytes()
                ids = {one for one, until in gone.items() if written.st_mtime <= until.timestamp()}
                erased = erased_json(stored, ids)
                if erased is not None:
                    write_atomically(path, erased)
                    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))  # its age stays
                    changed += 1
        return changed

    def _path(self, tenant: str, receipt_id: str) -> Path:
        return self._folder / file_name_of(tenant) / f"{file_name_of(receipt_id)}.json"

    def _write(self, receipt: Receipt) -> None:
        path = self._path(receipt.request.scope.tenant, receipt.id)
        write_atomically(path, receipt.model_dump_json())
        for old in self._outdated(path.parent):
            old.unlink(missing_ok=True)

    def _recent(self, tenant: str, limit: int, offset: int) -> ReceiptPage:
        ages = _ages(self._path(tenant, "x").parent)
        listed = list(ages)[offset : offset + max(0, limit)]
        found = [receipt for path in listed if (receipt := _parsed(path)) is not None]
        return ReceiptPage(receipts=tuple(found), end=offset + len(listed) >= len(ages))

    def _outdated(self, folder: Path) -> list[Path]:
        ages = _ages(folder)
        too_many = list(ages)[KEPT:]
        too_old = [path for path, age in ages.items() if self._ttl_s is not None and age > self._ttl_s]
        return [*too_many, *too_old]


def _ages(folder: Path) -> dict[Path, float]:
    """Return a folder's receipts, newest first, with their age in seconds; another process may be deleting some."""
    written: dict[Path, int] = {}
    for path in folder.glob("*.json"):
        try:
            written[path] = path.stat().st_mtime_ns
        except FileNotFoundError:
            continue
    now = time.time_ns()
    return {path: (now - at) / 1e9 for path, at in sorted(written.items(), key=lambda pair: -pair[1])}


def _parsed(path: Path) -> Receipt | None:
    try:
        return Receipt.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
