"""Saved settings in Redis: one hash with the version, all values and who changed them, which never expires.

Fields: `version`, a number; `saved`, `{"general": {...}, "agents": {"<id>": {...}}}`; `history`, a list of changes.
"""

import json
from typing import Any

from pydantic import BaseModel, TypeAdapter

from hooks.contract import Reason
from worker.domain.errors import QueueError
from worker.settings.saved import SavedChange, SavedSettings

from .faults import redis_errors

KEY = "meeseeks:settings"
"""The only key that never expires besides the queue's."""

TIMEOUT_S = 2.0

WRITE = """
if tonumber(redis.call('HGET', KEYS[1], 'version') or '0') ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'saved', ARGV[3], 'history', ARGV[4])
return 1
"""
"""KEYS: settings. ARGV: expected version, new version, new values and history as JSON."""


class _Tables(BaseModel):
    general: dict[str, Any]
    agents: dict[str, dict[str, Any]]


_HISTORY = TypeAdapter(tuple[SavedChange, ...])


class RedisOverrides:
    """Implement `worker.settings.live.OverrideStore`. Methods raise `QueueError` within `TIMEOUT_S` seconds."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def read(self, known: int) -> SavedSettings | None:
        """Return the saved settings, `None` if their version is `known`. Version 0 means none."""
        async with redis_errors(TIMEOUT_S):
            version = await self._redis.hget(KEY, "version")
            if int(version or 0) == known:
                return None
            version, saved, history = await self._redis.hmget(KEY, "version", "saved", "history")
        return _parsed(version, saved, history)

    async def write(self, expected: int, saved: SavedSettings) -> bool:
        """Save if the stored version is `expected`, and return whether it was."""
        values = json.dumps({"general": dict(saved.general), "agents": dict(saved.agents)})
        history = _HISTORY.dump_json(saved.history)
        async with redis_errors(TIMEOUT_S):
            return bool(await self._redis.eval(WRITE, 1, KEY, expected, saved.version, values, history))


def _parsed(version: bytes | None, saved: bytes | None, history: bytes | None) -> SavedSettings:
    if version is None or saved is None:
        return SavedSettings()
    try:
        tables = _Tables.model_validate_json(saved)
        return SavedSettings(int(version), tables.general, tables.agents, _HISTORY.validate_json(history or b"[]"))
    except ValueError as error:
        raise QueueError(
            Reason.BAD_REPLY, f"{KEY} in Redis has no valid settings; delete the key to start without saved settings"
        ) from error
