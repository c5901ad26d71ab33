"""How the queue looks in Redis: key names, the scripts that callers run, and where Redis is found.

Standard library only, and no module that is slow to load: the stand-alone command starts with this file.

The layout is arq's own (a job's JSON in `arq:job:<id>`, its id in a sorted set scored by the time in ms), so that a
job put by a plain `ArqRedis.enqueue_job` is run too. Added to it are a list that wakes one idle worker, a key that
says a worker is alive, and one list per job that carries two things back: `ACK` when a worker takes the job up, then
the answer, an ASCII JSON object of one of these two forms:

    {"commit":["<ledger key>","<turn id>"],"ok":{...}}      `commit` may be null
    {"error":{"reason":"<Reason>","message":"..."}}

Every time that matters is read from Redis' own clock, inside the scripts, so clocks of hosts need not agree. A job's
key lives as long as its caller waits; an id whose key is gone is never run.
"""

import os
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

QUEUE = "meeseeks:queue"
WAKE = QUEUE + ":wake"
ALIVE = QUEUE + ":alive"
JOB_PREFIX = "arq:job:"
IN_PROGRESS_PREFIX = "arq:in-progress:"
REPLY_PREFIX = "meeseeks:reply:"

PERMANENT_KEYS = frozenset({QUEUE})
"""Keys without a time to live: only the sorted set of job ids, which workers sweep twice a second."""

INJECT = "inject"
"""Name of the job that serves the hook; the other jobs are named in `worker.operations.requests`."""

SESSION_EVENT = "session_event"
"""Name of the job that takes what happened to a session."""

POST_EXECUTION = "post_execution"
"""Name of the job that takes what a worker answered."""

HOST_HOOK = "host_hook"
"""Name of the job that takes a native event of a host and brings that host's native output."""

ACK = b'{"ack":1}'
REPLY_TTL_MS = 5_000
WAKE_TTL_MS = 5_000

MAX_WAITING = 200
"""Jobs that may wait for a worker before a new one is refused as busy."""

ENQUEUE_TIMEOUT = 0.25
"""Seconds within which Redis must have taken a job, connecting included."""

ACK_TIMEOUT = 0.2
"""Seconds within which a live worker takes a job up; after that the caller goes on without memory."""

GIVE_UP_TIMEOUT = 0.1
"""Most seconds spent on taking back a job that no worker took up."""

COMMIT_TIMEOUT = 0.05
"""Most seconds that a caller which has its answer spends on telling the ledger."""

MAX_BUDGET_MS = 60_000

ENQUEUE = """
if redis.call('EXISTS', KEYS[4]) == 0 then return 'NO_WORKER' end
if redis.call('LLEN', KEYS[3]) >= tonumber(ARGV[4]) then return 'BUSY' end
local now = redis.call('TIME')
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[2], now[1] * 1000 + math.floor(now[2] / 1000), ARGV[1])
redis.call('RPUSH', KEYS[3], ARGV[1])
redis.call('PEXPIRE', KEYS[3], ARGV[5])
return 'OK'
"""
"""KEYS: job, queue, wake, alive. ARGV: id, job JSON, the caller's budget in ms, most waiting, life of wake in ms."""

GIVE_UP = """
redis.call('LREM', KEYS[3], 1, ARGV[1])
if redis.call('EXISTS', KEYS[4]) == 0 then redis.call('ZREM', KEYS[2], ARGV[1]) end
return redis.call('DEL', KEYS[1])
"""
"""KEYS: job, queue, wake, in progress. ARGV: id. Takes back a job that no worker has taken up."""

COMMIT = """
local ledger, turn_id = KEYS[1], ARGV[1]
if not ledger then
  local pair = cjson.decode(ARGV[1])
  ledger, turn_id = pair[1], pair[2]
end
local offered = redis.call('HGET', ledger, 't:' .. turn_id)
local turn = offered and cjson.decode(offered)
if not turn or not turn.shown then return 0 end
if turn.committed then return 1 end
for memory_id, shown in pairs(turn.shown) do redis.call('HSET', ledger, 'm:' .. memory_id, cjson.encode(shown)) end
turn.committed = true
redis.call('HSET', ledger, 't:' .. turn_id, cjson.encode(turn))
return 1
"""
"""KEYS: ledger. ARGV: turn id. Marks what a turn offered as shown; 0 when the ledger knows no such offer.

Without keys, ARGV is the `commit` member of an answer as it came, so that a caller need not parse it.
"""

_SAFE_SOCKET_BYTES = 100
"""A Unix socket's address holds 108 bytes on Linux and 104 on macOS."""


def job_json(function: str, payload: bytes, budget_ms: int, enqueued_ms: int) -> bytes:
    """A job in arq's layout, with `payload` (a JSON object) spliced in unparsed."""
    head = b'{"t":null,"f":"%s","a":[],"k":{"payload":' % function.encode()
    return b'%s%s,"budget_ms":%d},"et":%d}' % (head, payload, budget_ms, enqueued_ms)


def enqueue_keys(job_id: str) -> tuple[str, str, str, str]:
    """`KEYS` of `ENQUEUE`."""
    return (JOB_PREFIX + job_id, QUEUE, WAKE, ALIVE)


def give_up_keys(job_id: str) -> tuple[str, str, str, str]:
    """`KEYS` of `GIVE_UP`."""
    return (JOB_PREFIX + job_id, QUEUE, WAKE, IN_PROGRESS_PREFIX + job_id)


def socket_path(home: str) -> str:
    """The embedded Valkey's socket for the data folder `home`, an absolute path.

    It lies in `home`, or where that path does not fit a socket's address in a short folder of this user's own.
    """
    path = home + "/valkey.sock"
    if len(os.fsencode(path)) <= _SAFE_SOCKET_BYTES:
        return path
    shared = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - the folder in it is the user's own, and checked
    return f"{shared.rstrip('/')}/meeseeks-{os.getuid()}-{crc32(os.fsencode(home)):08x}/valkey.sock"


def unix_url(socket_path: str) -> str:
    """The URL of a socket, with every byte that a URL gives a meaning to escaped."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.-~"
    return "unix://" + "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in os.fsencode(socket_path))


def default_redis_url(environ: "Mapping[str, str]") -> str:
    """Where Redis is: `MEESEEKS_REDIS_URL`, else the socket of the embedded Valkey in the data folder."""
    return environ.get("MEESEEKS_REDIS_URL") or unix_url(socket_path(data_dir(environ)))


def data_dir(environ: "Mapping[str, str]") -> str:
    """The service's data folder, an absolute path: `MEESEEKS_DATA_DIR`, else the user's own."""
    home = environ.get("MEESEEKS_DATA_DIR")
    if not home:
        shared = environ.get("XDG_DATA_HOME") or "~/.local/share"
        home = f"{shared.rstrip('/')}/meeseeks"
    return os.path.abspath(os.path.expanduser(home))  # noqa: PTH100, PTH111 - pathlib is slow to load
