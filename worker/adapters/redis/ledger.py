"""Ledgers in Redis: one hash per tenant, session and agent; every change is one script.

Fields:
- `n`: number of turns
- `u:<turn id>`: number of a turn; `i:<n>`: id of turn `n`
- `t:<turn key>`: an offer, `{"n": 3, "shown": {...}, "committed": false}`; `r:<turn key>`: its answer
- `m:<memory id>`: an entry, `{"version": 1, "turn": 3, "block_id": "...", "text": "...", "vector": "<base64>"}`
- `q`: number of offers; each is kept with its place in their order
- `p`: last turn before a pending compaction; `c`: last turn when an announced compaction ended

Callers commit with `hooks.protocol.wire.COMMIT`. Further keys hold the agents of each session, and the memories of each
offered block, from which the ledger of a forked session is rebuilt.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from hooks.protocol import wire
from worker.domain.ledger import LedgerEntry, LedgerKey, LedgerView, turn_id_of

from .faults import redis_errors

KEY_PREFIX = "meeseeks:ledger:"
SESSION_PREFIX = "meeseeks:session:"
BLOCK_PREFIX = "meeseeks:block:"
READABLE_CHARS = 200
KEPT_TURNS = 32
"""Turns whose answers can be replayed or committed."""

TIMEOUT_S = 2.0

_FUNCTIONS = """
local function fields_of(key, family)
  local found = {}
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, 2) == family then found[#found + 1] = field end
  end
  return found
end
local function begin(key, turn_id, kept)
  local known = redis.call('HGET', key, 'u:' .. turn_id)
  if known then return tonumber(known) end
  local turn = redis.call('HINCRBY', key, 'n', 1)
  redis.call('HSET', key, 'u:' .. turn_id, turn, 'i:' .. turn, turn_id)
  local old = redis.call('HGET', key, 'i:' .. (turn - kept))
  if not old then return turn end
  redis.call('HDEL', key, 'i:' .. (turn - kept), 'u:' .. old)
  for _, field in ipairs(fields_of(key, 't:')) do
    local turn_key = string.sub(field, 3)
    if turn_key == old or string.match(turn_key, '^(.*):[^:]*$') == old then
      redis.call('HDEL', key, field, 'r:' .. turn_key)
    end
  end
  return turn
end
local function keep(key, agents, agent, ttl)
  redis.call('SADD', agents, agent)
  redis.call('EXPIRE', agents, ttl)
  redis.call('EXPIRE', key, ttl)
end
"""
"""`begin` returns the number of a turn, a new one if unknown, and forgets the turn `kept` turns back."""

VIEW = (
    _FUNCTIONS
    + """
local key = KEYS[1]
local turn = begin(key, ARGV[2], tonumber(ARGV[5]))
keep(key, KEYS[2], ARGV[3], ARGV[4])
local newest = tonumber(redis.call('HGET', key, 'n'))
local result = {turn, redis.call('HGET', key, 'r:' .. ARGV[1]), redis.call('HGET', key, 'p'), false}
result[5] = redis.call('HGET', key, 'q')
for _, field in ipairs(fields_of(key, 'm:')) do
  local entry = redis.call('HGET', key, field)
  local shown = tonumber(string.match(entry, '"turn":%s*(%d+)')) or 0
  if shown <= newest - tonumber(ARGV[6]) and not string.find(entry, '"lasting":%s*true') then
    redis.call('HDEL', key, field)
  else
    result[#result + 1] = string.sub(field, 3)
    result[#result + 1] = entry
  end
end
return result
"""
)
"""KEYS: ledger, agents. ARGV: turn key, turn id, agent, lifetime in s, turns kept, turns that count as shown.

Return the turn's number, its answer or nil, the pending turn or nil, nil, the number of offers or nil, then pairs of
memory id and entry.
"""

PEEK = (
    _FUNCTIONS
    + """
local result = {redis.call('HGET', KEYS[1], 'n'), false, redis.call('HGET', KEYS[1], 'p')}
result[4] = redis.call('HGET', KEYS[1], 'c')
result[5] = redis.call('HGET', KEYS[1], 'q')
for _, field in ipairs(fields_of(KEYS[1], 'm:')) do
  result[#result + 1] = string.sub(field, 3)
  result[#result + 1] = redis.call('HGET', KEYS[1], field)
end
return result
"""
)
"""KEYS: ledger. Return the same as `VIEW` without changes, fourth the turn when the last announced compaction ended."""

OFFER = (
    _FUNCTIONS
    + """
local key = KEYS[1]
local taken = {}
if redis.call('HEXISTS', key, 'r:' .. ARGV[1]) == 0 then
  local turn = begin(key, ARGV[2], tonumber(ARGV[5]))
  local last, seen = tonumber(redis.call('HGET', key, 'q') or 0), tonumber(ARGV[8])
  if seen and last > seen then
    local wanted = cjson.decode(ARGV[7])
    local function take(memory_id, entry)
      if wanted[memory_id] and entry.version >= wanted[memory_id].version then
        taken[#taken + 1] = memory_id
        wanted[memory_id] = nil
      end
    end
    for _, field in ipairs(fields_of(key, 't:')) do
      local other = cjson.decode(redis.call('HGET', key, field))
      if (other.place or 0) > math.max(seen, 0) then
        for memory_id, entry in pairs(other.shown or {}) do take(memory_id, entry) end
      end
    end
    if seen < 0 then
      for memory_id in pairs(wanted) do
        local entry = redis.call('HGET', key, 'm:' .. memory_id)
        if entry then take(memory_id, cjson.decode(entry)) end
      end
    end
    if #taken > 0 then return taken end
  end
  local shown = string.gsub(ARGV[7], '"turn":0,', '"turn":' .. turn .. ',')
  local place = redis.call('HINCRBY', key, 'q', 1)
  local offered = '{"n":' .. turn .. ',"place":' .. place .. ',"shown":' .. shown .. ',"committed":false}'
  redis.call('HSET', key, 't:' .. ARGV[1], offered, 'r:' .. ARGV[1], ARGV[6])
  if KEYS[3] then redis.call('SET', KEYS[3], shown, 'EX', ARGV[4]) end
end
keep(key, KEYS[2], ARGV[3], ARGV[4])
return taken
"""
)
"""KEYS: ledger, agents, block (if any). ARGV: the first five of `VIEW`, answer, entries as JSON, offers seen or empty.

Return the ids of memories that later offers took, and with a negative number of offers seen also those shown before;
then nothing is kept.
Entries of turn 0 get the turn's number. A quote inside a text is escaped, so that no text matches.
"""

DROP = """
local gone = 0
if redis.call('HDEL', KEYS[1], 'p') == 1 then
  redis.call('HSET', KEYS[1], 'c', redis.call('HGET', KEYS[1], 'n') or 0)
end
for i = 1, #ARGV, 3 do
  local entry = redis.call('HGET', KEYS[1], 'm:' .. ARGV[i])
  local shown = entry and cjson.decode(entry)
  if shown and shown.turn == tonumber(ARGV[i + 1]) and shown.block_id == ARGV[i + 2] then
    gone = gone + redis.call('HDEL', KEYS[1], 'm:' .. ARGV[i])
  end
end
return gone
"""
"""KEYS: ledger. ARGV: memory id, turn and block of each entry to remove if unchanged."""

PEND = """
local turn = redis.call('HGET', KEYS[1], 'n')
if turn then redis.call('HSET', KEYS[1], 'p', turn) end
return 1
"""

ADOPT = (
    _FUNCTIONS
    + """
local new = 0
local turn = math.max(tonumber(redis.call('HGET', KEYS[1], 'n') or 0), tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], 'n', turn)
for i = 4, #ARGV, 2 do new = new + redis.call('HSETNX', KEYS[1], 'm:' .. ARGV[i], ARGV[i + 1]) end
keep(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
return new
"""
)
"""KEYS: ledger, agents. ARGV: agent, lifetime in s, turn, then pairs of memory id and entry."""

WITHDRAW = (
    _FUNCTIONS
    + """
local gone = 0
for _, field in ipairs(fields_of(KEYS[1], 't:')) do
  local turn_key = string.sub(field, 3)
  if turn_key == ARGV[1] or string.match(turn_key, '^(.*):[^:]*$') == ARGV[1] then
    local turn = cjson.decode(redis.call('HGET', KEYS[1], field))
    for memory_id, offered in pairs(turn.shown or {}) do
      local entry = redis.call('HGET', KEYS[1], 'm:' .. memory_id)
      local shown = entry and cjson.decode(entry)
      if shown and shown.turn == offered.turn and shown.block_id == offered.block_id then
        gone = gone + redis.call('HDEL', KEYS[1], 'm:' .. memory_id)
      end
    end
    turn.committed = false
    turn.place = 0
    redis.call('HSET', KEYS[1], field, cjson.encode(turn))
  end
end
return gone
"""
)
"""KEYS: ledger. ARGV: turn id."""


def ledger_key(key: LedgerKey) -> str:
    """Return the unique key of a ledger: readable if short, else hashed."""
    return _name(KEY_PREFIX, key.tenant, key.session_id, key.agent_id)


def _name(prefix: str, *parts: str) -> str:
    readable = ":".join(quote(part, safe="") for part in parts)
    if len(readable) <= READABLE_CHARS:
        return prefix + readable
    # readable names escape "#"
    return prefix + "#" + hashlib.sha256(readable.encode()).hexdigest()


def _agents_key(tenant: str, session_id: str) -> str:
    return _name(SESSION_PREFIX, tenant, session_id)


def _encode(entry: LedgerEntry) -> dict[str, Any]:
    encoded: dict[str, Any] = {"version": entry.version, "turn": entry.turn, "block_id": entry.block_id}
    if entry.text:
        encoded["text"] = entry.text
    if entry.vector:
        encoded["vector"] = b64encode(entry.vector).decode("ascii")
    if entry.lasting:
        encoded["lasting"] = True
    return encoded


def _decode(raw: Mapping[str, Any]) -> LedgerEntry:
    vector = raw.get("vector")
    return LedgerEntry(
        version=raw["version"],
        turn=raw["turn"],
        block_id=raw["block_id"],
        text=raw.get("text", ""),
        vector=b64decode(vector) if vector else None,
        lasting=raw.get("lasting", False),
    )


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _view(reply: Sequence[Any]) -> LedgerView:
    turn, answer, pending, compacted, offers, *shown = reply
    entries = zip(shown[::2], shown[1::2], strict=True)
    return LedgerView(
        turn=int(turn or 0),
        shown={memory_id.decode(): _decode(json.loads(entry)) for memory_id, entry in entries},
        replay=None if answer is None else answer.decode(),
        pending=None if pending is None else int(pending),
        compacted=None if compacted is None else int(compacted),
        offers=int(offers or 0),
    )


class RedisLedger:
    """Implement `worker.ports.state.Ledger`. Methods raise `QueueError` within `TIMEOUT_S` seconds.

    A ledger expires `ttl_s` seconds after its last turn.
    """

    def __init__(self, redis: Any, ttl_s: int) -> None:
        self._redis = redis
        self._ttl_s = ttl_s

    async def view(self, key: LedgerKey, turn_key: str, *, depth: int) -> LedgerView:
        return _view(await self._eval(VIEW, self._keys(key), (*self._turn(key, turn_key), depth)))

    async def peek(self, key: LedgerKey) -> LedgerView:
        return _view(await self._eval(PEEK, (ledger_key(key),)))

    async def offer(
        self, key: LedgerKey, turn_key: str, answer: str, shown: dict[str, LedgerEntry], *, seen: int | None = None
    ) -> frozenset[str]:
        entries = _json({memory_id: _encode(entry) for memory_id, entry in shown.items()})
        blocks = {entry.block_id for entry in shown.values()}
        keys = (*self._keys(key), *(_name(BLOCK_PREFIX, key.tenant, block_id) for block_id in blocks))
        since = "" if seen is None else seen
        taken = await self._eval(OFFER, keys, (*self._turn(key, turn_key), answer, entries, since))
        return frozenset(name.decode() for name in taken)

    async def commit(self, key: LedgerKey, turn_key: str) -> bool:
        return bool(await self._eval(wire.COMMIT, (ledger_key(key),), (turn_key,)))

    async def agents(self, tenant: str, session_id: str) -> tuple[str, ...]:
        async with redis_errors(TIMEOUT_S):
            names = await self._redis.smembers(_agents_key(tenant, session_id))
        return tuple(sorted(name.decode() for name in names))

    async def reset(self, key: LedgerKey) -> int:
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            pipe.eval(PEEK, 1, ledger_key(key))
            pipe.delete(ledger_key(key))
            pipe.srem(_agents_key(key.tenant, key.session_id), key.agent_id)
            before, *_ = await pipe.execute()
        return len(_view(before).shown)

    async def drop(self, key: LedgerKey, entries: Mapping[str, LedgerEntry]) -> int:
        flat = [part for name, entry in entries.items() for part in (name, entry.turn, entry.block_id)]
        return int(await self._eval(DROP, (ledger_key(key),), flat))

    async def begin_compaction(self, key: LedgerKey) -> None:
        await self._eval(PEND, (ledger_key(key),))

    async def adopt(self, key: LedgerKey, turn: int, entries: Mapping[str, LedgerEntry]) -> int:
        flat = [part for name, entry in entries.items() for part in (name, _json(_encode(entry)))]
        return int(await self._eval(ADOPT, self._keys(key), (key.agent_id, self._ttl_s, turn, *flat)))

    async def withdraw(self, key: LedgerKey, turn_id: str) -> int:
        return int(await self._eval(WITHDRAW, (ledger_key(key),), (turn_id,)))

    async def blocks(self, tenant: str, block_ids: Sequence[str]) -> dict[str, LedgerEntry]:
        if not block_ids:
            return {}
        async with redis_errors(TIMEOUT_S):
            kept = await self._redis.mget([_name(BLOCK_PREFIX, tenant, block_id) for block_id in block_ids])
        found = [json.loads(block) for block in kept if block is not None]
        return {name: _decode(entry) for block in found for name, entry in block.items()}

    def _keys(self, key: LedgerKey) -> tuple[str, str]:
        return ledger_key(key), _agents_key(key.tenant, key.session_id)

    def _turn(self, key: LedgerKey, turn_key: str) -> tuple[str | int, ...]:
        return turn_key, turn_id_of(turn_key), key.agent_id, self._ttl_s, KEPT_TURNS

    async def _eval(self, script: str, keys: Sequence[str], arguments: Iterable[Any] = ()) -> Any:
        async with redis_errors(TIMEOUT_S):
            return await self._redis.eval(script, len(keys), *keys, *arguments)
