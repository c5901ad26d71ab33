"""How the queue looks in Redis: key names and the scripts that both sides run. Standard library only.

The layout is arq's own (a job's JSON in `arq:job:<id>`, its id in a sorted set), so that a job put by a plain
`ArqRedis.enqueue_job` is run too. Added to it are a list that wakes one idle worker, a key that says a worker is
alive, and one list per job that carries the acknowledgement and the answer back.
"""

QUEUE = "meeseeks:queue"
WAKE = QUEUE + ":wake"
ALIVE = QUEUE + ":alive"
JOB_PREFIX = "arq:job:"
REPLY_PREFIX = "meeseeks:reply:"

INJECT = "inject"
"""Name of the job that serves the hook; the other jobs are named in `worker.operations`."""

ACK = b'{"ack":1}'
REPLY_TTL_MS = 5_000
BACKDATE_MS = 5_000
"""Queue scores lie this far in the past, so that no clock skew between hosts can make a fresh job look future."""

MAX_WAITING = 200
"""Jobs that may wait for a worker before a new one is refused as busy."""

ACK_TIMEOUT = 0.15
"""Seconds within which a live worker takes a job up; after that the caller goes on without memory."""

ENQUEUE = """
if redis.call('EXISTS', KEYS[4]) == 0 then return 'NO_WORKER' end
if redis.call('LLEN', KEYS[3]) >= tonumber(ARGV[4]) then return 'BUSY' end
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[2], ms - tonumber(ARGV[5]), ARGV[1])
redis.call('RPUSH', KEYS[3], ARGV[1])
redis.call('PEXPIRE', KEYS[3], ARGV[3])
return 'OK'
"""
"""KEYS: job, queue, wake, alive. ARGV: id, job JSON, time to live in ms, most waiting, back-dating in ms."""

COMMIT = """
local offered = redis.call('HGET', KEYS[1], 't:' .. ARGV[1])
if not offered then return 0 end
local turn = cjson.decode(offered)
if turn.committed then return 1 end
for memory_id, shown in pairs(turn.shown) do redis.call('HSET', KEYS[1], 'm:' .. memory_id, cjson.encode(shown)) end
turn.committed = true
redis.call('HSET', KEYS[1], 't:' .. ARGV[1], cjson.encode(turn))
return 1
"""
"""KEYS: ledger. ARGV: turn id. Marks what a turn offered as shown; 0 when the ledger knows no such turn."""


def job_json(function: str, payload: bytes, budget_ms: int, enqueued_ms: int) -> bytes:
    """A job in arq's layout, with `payload` (a JSON object) spliced in unparsed."""
    head = b'{"t":null,"f":"%s","a":[],"k":{"payload":' % function.encode()
    return b'%s%s,"budget_ms":%d},"et":%d}' % (head, payload, budget_ms, enqueued_ms)
