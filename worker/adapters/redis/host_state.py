"""What is kept about hosts in Redis, shared by workers.

- `meeseeks:projects:<tenant>`: a hash of `i:<identity>` to a project's name and `n:<name>` to its identity; permanent
- `meeseeks:turns:<hash>`: a list of a session's turns as JSON, oldest first
- `meeseeks:last-event:<hash>`: the digest of a session's last event
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from worker.hosts.state import MOST_TURN_CHARS, MOST_TURNS, REPEAT_S, TURNS_TTL_S, SaidTurn, SessionOf

from .faults import redis_errors

PROJECTS_PREFIX = "meeseeks:projects:"
TURNS_PREFIX = "meeseeks:turns:"
EVENT_PREFIX = "meeseeks:last-event:"
TIMEOUT_S = 0.5

NAME = """
local known = redis.call('HGET', KEYS[1], 'i:' .. ARGV[1])
if known then return known end
for i = 2, #ARGV do
  if i == #ARGV or redis.call('HSETNX', KEYS[1], 'n:' .. ARGV[i], ARGV[1]) == 1 then
    redis.call('HSET', KEYS[1], 'i:' .. ARGV[1], ARGV[i], 'n:' .. ARGV[i], ARGV[1])
    return ARGV[i]
  end
end
"""
"""KEYS: projects. ARGV: identity, then names; the last one is unique to the identity."""

EARLIER = """
local turns = redis.call('LRANGE', KEYS[1], 0, -1)
if ARGV[1] ~= '' then
  for _, kept in ipairs(turns) do
    if cjson.decode(kept).turn_id == ARGV[2] then return turns end
  end
  redis.call('RPUSH', KEYS[1], ARGV[1])
  redis.call('LTRIM', KEYS[1], -tonumber(ARGV[3]), -1)
  redis.call('EXPIRE', KEYS[1], ARGV[4])
end
return turns
"""
"""KEYS: turns. ARGV: turn as JSON or an empty text, its id, most turns, lifetime in s. Return the turns before."""


class RedisHostState:
    """Implement `worker.hosts.state.HostState`. Methods raise `QueueError` within `TIMEOUT_S` seconds."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def project_name(self, tenant: str, identity: str, names: Sequence[str]) -> str:
        key = PROJECTS_PREFIX + quote(tenant, safe="")
        async with redis_errors(TIMEOUT_S):
            name: bytes = await self._redis.eval(NAME, 1, key, identity, *names)
        return name.decode()

    async def earlier(self, session: SessionOf, turn: SaidTurn) -> list[SaidTurn]:
        kept = {**asdict(turn), "text": turn.text[:MOST_TURN_CHARS]}
        encoded = json.dumps(kept, separators=(",", ":")) if turn.text else ""
        async with redis_errors(TIMEOUT_S):
            key = _key(TURNS_PREFIX, session)
            found = await self._redis.eval(EARLIER, 1, key, encoded, turn.turn_id, MOST_TURNS, TURNS_TTL_S)
        return [SaidTurn(**json.loads(one)) for one in found]

    async def forget_turns(self, session: SessionOf) -> None:
        async with redis_errors(TIMEOUT_S):
            await self._redis.delete(_key(TURNS_PREFIX, session))

    async def repeats(self, session: SessionOf, event: str) -> bool:
        async with redis_errors(TIMEOUT_S):
            before = await self._redis.set(_key(EVENT_PREFIX, session), event, px=int(REPEAT_S * 1000), get=True)
        return before is not None and before.decode() == event


def _key(prefix: str, session: SessionOf) -> str:
    parts = json.dumps([session.tenant, session.session_id])
    return prefix + hashlib.sha256(parts.encode()).hexdigest()
