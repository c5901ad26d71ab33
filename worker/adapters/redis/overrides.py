"""Saved settings in Redis: one hash with the version and all values, so that both always go together.

Fields: `version`, a number; `saved`, `{"general": {...}, "agents": {"<id>": {...}}}`. The key has no time to live.
"""

import json
from typing import Any

from pydantic import BaseModel

from hooks.contract import Reason
from worker.domain.errors import QueueError
from worker.settings.injection import SavedSettings

from .faults import in_reach

KEY = "meeseeks:settings"
"""The only key without a time to live but the queue's own."""

TIMEOUT_S = 2.0

WRITE = """
if tonumber(redis.call('HGET', KEYS[1], 'version') or '0') ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'saved', ARGV[3])
return 1
"""
"""KEYS: settings. ARGV: the version that is to be there, the new version, the new values as JSON."""


class _Tables(BaseModel):
    general: dict[str, Any]
    agents: dict[str, dict[str, Any]]


class RedisOverrides:
    """Implements `worker.settings.live.OverrideStore`. Methods raise `QueueError` within `TIMEOUT_S` seconds."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def read(self, known: int) -> SavedSettings | None:
        """What is saved, unless that is the version `known`; nothing at all is version 0."""
        async with in_reach("settings are", TIMEOUT_S):
            version = await self._redis.hget(KEY, "version")
            if int(version or 0) == known:
                return None
            version, saved = await self._redis.hmget(KEY, "version", "saved")
        return _parsed(version, saved)

    async def write(self, expected: int, saved: SavedSettings) -> bool:
        """Save, if the version that is there is `expected`; whether it was."""
        values = json.dumps({"general": dict(saved.general), "agents": dict(saved.agents)})
        async with in_reach("settings are", TIMEOUT_S):
            return bool(await self._redis.eval(WRITE, 1, KEY, expected, saved.version, values))


def _parsed(version: bytes | None, saved: bytes | None) -> SavedSettings:
    if version is None or saved is None:
        return SavedSettings()
    try:
        tables = _Tables.model_validate_json(saved)
        return SavedSettings(int(version), tables.general, tables.agents)
    except ValueError as error:
        raise QueueError(Reason.BAD_REPLY, f"what {KEY} holds in Redis are not saved settings") from error
