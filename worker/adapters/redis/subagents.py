"""Pending subagent tasks in Redis, shared by workers: one list per kind, changed by scripts.

`meeseeks:subagent:<hash>` is a list of tasks as JSON, oldest first. `meeseeks:subagent:<hash>:mixed` exists from when
several tasks are pending until all have started. Both expire.
"""

import hashlib
import json
from dataclasses import asdict
from typing import Any

from worker.hosts.profile import SubagentKind, SubagentTask
from worker.hosts.subagents import MOST_WAITING, WAIT_S

from .faults import redis_errors

KEY_PREFIX = "meeseeks:subagent:"
TIMEOUT_S = 1.0

ANNOUNCE = """
if redis.call('LLEN', KEYS[1]) < tonumber(ARGV[3]) then redis.call('RPUSH', KEYS[1], ARGV[1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
"""
"""KEYS: tasks, mixed. ARGV: task, lifetime in ms, maximum tasks."""

START = """
local task = redis.call('LPOP', KEYS[1])
if not task then return false end
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('SET', KEYS[2], 1, 'PX', ARGV[1])
  return false
end
if redis.call('DEL', KEYS[2]) == 1 then return false end
return task
"""
"""KEYS: tasks, mixed. ARGV: lifetime in ms. Return the task, nil if none or several are or were pending."""


class RedisSubagents:
    """Implement `worker.hosts.subagents.PendingSubagents`. Methods raise `QueueError` within `TIMEOUT_S` seconds."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def announce(self, kind: SubagentKind, task: SubagentTask) -> None:
        encoded = json.dumps(asdict(task), separators=(",", ":"))
        await self._eval(ANNOUNCE, kind, encoded, _ttl_ms(), MOST_WAITING)

    async def start(self, kind: SubagentKind) -> SubagentTask | None:
        found = await self._eval(START, kind, _ttl_ms())
        return None if found is None else SubagentTask(**json.loads(found))

    async def _eval(self, script: str, kind: SubagentKind, *arguments: str | int) -> Any:
        async with redis_errors(TIMEOUT_S):
            return await self._redis.eval(script, 2, *_keys(kind), *arguments)


def _ttl_ms() -> int:
    return int(WAIT_S * 1000)


def _keys(kind: SubagentKind) -> tuple[str, str]:
    parts = json.dumps([kind.tenant, kind.session_id, kind.agent_type])
    name = KEY_PREFIX + hashlib.sha256(parts.encode()).hexdigest()
    return name, name + ":mixed"
