"""Ledgers in Redis: one hash per tenant, session and agent; every change is one script.

Fields: `n` the number of turns; `t:<turn id>` a turn, `{"n": 3, "shown": {...}, "committed": false}`, without `shown`
until something is offered; `r:<turn id>` its answer; `i:<n>` the id of turn `n`; `m:<memory id>` what the session has
been shown, `{"version": 1, "turn": 3, "block_id": "..."}`. Callers commit with `hooks.wire.COMMIT`.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from redis.exceptions import RedisError

from hooks import wire
from hooks.contract import Reason

from ..errors import QueueError
from ..models import LedgerEntry, LedgerKey, LedgerView

KEY_PREFIX = "meeseeks:ledger:"
READABLE_CHARS = 200
KEPT_TURNS = 32
"""Turns whose answers can be replayed or committed; older ones are forgotten."""

SHOWN_TURNS = 1_000
"""Turns after which a shown memory is forgotten, the longest that the settings can ask for."""

SHOWN_BEFORE_SWEEP = 500
TIMEOUT_S = 2.0

VIEW = """
local turn_field = 't:' .. ARGV[1]
local stored, turn = redis.call('HGET', KEYS[1], turn_field), nil
if stored then
  turn = cjson.decode(stored).n
else
  turn = redis.call('HINCRBY', KEYS[1], 'n', 1)
  redis.call('HSET', KEYS[1], turn_field, '{"n":' .. turn .. ',"committed":false}', 'i:' .. turn, ARGV[1])
  local old = 'i:' .. (turn - tonumber(ARGV[3]))
  local old_id = redis.call('HGET', KEYS[1], old)
  if old_id then redis.call('HDEL', KEYS[1], old, 't:' .. old_id, 'r:' .. old_id) end
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
local fields = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 2) == 'm:' then fields[#fields + 1] = field end
end
local result = {turn, redis.call('HGET', KEYS[1], 'r:' .. ARGV[1])}
local sweep = #fields > tonumber(ARGV[4])
for _, field in ipairs(fields) do
  local shown = redis.call('HGET', KEYS[1], field)
  if sweep and cjson.decode(shown).turn <= turn - tonumber(ARGV[5]) then
    redis.call('HDEL', KEYS[1], field)
  else
    result[#result + 1] = string.sub(field, 3)
    result[#result + 1] = shown
  end
end
return result
"""
"""KEYS: ledger. ARGV: turn id, time to live in s, turns kept, shown memories before a sweep, turns they are kept.

The turn's number, its answer or nil, then id and entry of every memory shown.
"""

OFFER = """
local turn_field = 't:' .. ARGV[1]
if redis.call('HEXISTS', KEYS[1], 'r:' .. ARGV[1]) == 0 then
  local stored, turn = redis.call('HGET', KEYS[1], turn_field), nil
  if stored then
    turn = cjson.decode(stored).n
  else
    turn = redis.call('HINCRBY', KEYS[1], 'n', 1)
    redis.call('HSET', KEYS[1], 'i:' .. turn, ARGV[1])
  end
  local offered = '{"n":' .. turn .. ',"shown":' .. ARGV[3] .. ',"committed":false}'
  redis.call('HSET', KEYS[1], turn_field, offered, 'r:' .. ARGV[1], ARGV[2])
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
"""
"""KEYS: ledger. ARGV: turn id, answer, entries as JSON, time to live in s. A turn's first offer stands."""


def ledger_key(key: LedgerKey) -> str:
    """The name of a ledger in Redis: readable where that is short, else a hash. No two ledgers share one."""
    parts = (key.tenant, key.session_id, key.agent_id)
    readable = ":".join(quote(part, safe="") for part in parts)
    if len(readable) <= READABLE_CHARS:
        return KEY_PREFIX + readable
    # no readable name holds "#", which is escaped there
    return KEY_PREFIX + "#" + hashlib.sha256(readable.encode()).hexdigest()


class RedisLedger:
    """Implements `worker.protocols.Ledger`. Methods raise `QueueError` within `TIMEOUT_S` seconds.

    `ttl_s` is the time in seconds that a session's ledger outlives its last turn.
    """

    def __init__(self, redis: Any, ttl_s: int) -> None:
        self._redis = redis
        self._ttl_s = ttl_s

    async def view(self, key: LedgerKey, turn_id: str) -> LedgerView:
        """What the session has been shown. A new `turn_id` starts a turn; a known one has its number and answer."""
        arguments = (turn_id, self._ttl_s, KEPT_TURNS, SHOWN_BEFORE_SWEEP, SHOWN_TURNS)
        async with _faults():
            turn, answer, *shown = await self._redis.eval(VIEW, 1, ledger_key(key), *arguments)
        entries = zip(shown[::2], shown[1::2], strict=True)
        return LedgerView(
            turn=turn,
            shown={memory_id.decode(): LedgerEntry(**json.loads(entry)) for memory_id, entry in entries},
            replay=None if answer is None else answer.decode(),
        )

    async def offer(self, key: LedgerKey, turn_id: str, answer: str, shown: dict[str, LedgerEntry]) -> None:
        """Keep a turn's answer, and what it shows once that is committed. A turn's first offer stands."""
        entries = json.dumps({memory_id: asdict(entry) for memory_id, entry in shown.items()})
        async with _faults():
            await self._redis.eval(OFFER, 1, ledger_key(key), turn_id, answer, entries, self._ttl_s)

    async def commit(self, key: LedgerKey, turn_id: str) -> bool:
        """Count what a turn offered as shown; `False` when the ledger knows no such offer."""
        async with _faults():
            return bool(await self._redis.eval(wire.COMMIT, 1, ledger_key(key), turn_id))


@asynccontextmanager
async def _faults() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield
    except (RedisError, OSError) as error:
        raise QueueError(Reason.QUEUE_UNAVAILABLE, f"the ledger is out of reach: {type(error).__name__}") from error
