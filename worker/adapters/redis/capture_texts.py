"""Erase the texts of deleted memories from captures in Redis, whose keys `worker.adapters.redis.captures` explains."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError
from pydantic_core import to_json

from worker.capture.deleted_texts import quoted, without_texts_of
from worker.domain.capture import CaptureReceipt, Proposal

from .captures import PROPOSALS_PREFIX, RECEIPT_PREFIX
from .faults import redis_errors

SCANNED = 1_000
TOGETHER = 50
"""Captures to read at a time."""

TIMEOUT_S = 2.0

REPLACE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1
"""
"""KEYS: capture. ARGV: what it was, and what it becomes."""


class RedisCaptureTexts:
    """Implement `worker.ports.state.ErasableTexts`. Methods raise `QueueError` within `TIMEOUT_S` seconds per step."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def erase(self, tenant: str, gone: Mapping[str, datetime]) -> int:
        pattern, cursor = f"{RECEIPT_PREFIX}{quote(tenant, safe='')}:*", 0
        erased = await self._drop_proposals(PROPOSALS_PREFIX + quote(tenant, safe=""), gone)
        while True:
            async with redis_errors(TIMEOUT_S):
                cursor, keys = await self._redis.scan(cursor, match=pattern, count=SCANNED)
            for start in range(0, len(keys), TOGETHER):
                async with redis_errors(TIMEOUT_S):
                    erased += await self._erase(keys[start : start + TOGETHER], gone)
            if cursor == 0:
                return erased

    async def _drop_proposals(self, key: str, gone: Mapping[str, datetime]) -> int:
        """Remove the proposals that a deleted memory replaces another one, or is replaced."""
        async with redis_errors(TIMEOUT_S):
            waiting = [Proposal.model_validate_json(raw) for raw in await self._redis.hvals(key)]
            ended = [one.id for one in waiting if quoted(one) & gone.keys()]
            return int(await self._redis.hdel(key, *ended)) if ended else 0

    async def _erase(self, keys: Sequence[bytes], gone: Mapping[str, datetime]) -> int:
        """Erase texts from some captures; read those again that were changed meanwhile. Return how many changed."""
        erased = 0
        while keys:
            stored = zip(keys, await self._redis.mget(keys), strict=True)
            writes = {key: (raw, new) for key, raw in stored if raw is not None and (new := _erased(raw, gone))}
            keys = [key for key, write in writes.items() if not await self._redis.eval(REPLACE, 1, key, *write)]
            erased += len(writes) - len(keys)
        return erased


def _erased(stored: bytes, gone: Mapping[str, datetime]) -> str | None:
    """Return a capture without texts of deleted memories; `None` if it has none, or cannot be read."""
    if not any(to_json(one) in stored for one in gone):
        return None
    try:
        receipt = CaptureReceipt.model_validate_json(stored)
    except ValidationError:
        return None
    erased = without_texts_of(receipt, frozenset(one for one, until in gone.items() if receipt.at <= until))
    return None if erased == receipt else erased.model_dump_json()
