"""The queue in Redis: key names, the scripts that callers run, and the location of Redis.

Standard library only, without modules that are slow to load, because the stand-alone command starts with this file.

The layout is that of arq (a job's JSON in `arq:job:<id>`, its id in a sorted set scored by the time in ms), so jobs of
a plain `ArqRedis.enqueue_job` run too. Additions are a list that wakes one idle worker, a key that exists while a
worker is alive, and one reply list per job. A worker pushes `ACK` when it accepts the job, then the answer, an ASCII
JSON object in one of two forms:

    {"commit":["<ledger key>","<turn id>"],"ok":{...}}      `commit` may be null
    {"error":{"reason":"<Reason>","message":"..."}}

Scripts read the clock of Redis, so the clocks of hosts need not agree. A job's key lives as long as its caller waits;
a job without its key never runs.
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

BLOCK_KEY = "meeseeks:block-key"
"""The secret with which all workers mark blocks."""

PERMANENT_KEYS = frozenset({QUEUE, BLOCK_KEY})
"""Keys that never expire: the secret, and the sorted set of job ids, which workers clean up twice a second."""

INJECT = "inject"
"""Job that injects memory. More job names are in `worker.operations.registry`."""

SESSION_EVENT = "session_event"
"""Job that takes a session event."""

POST_EXECUTION = "post_execution"
"""Job that takes an answer report."""

CAPTURE = "capture"
"""Job that captures memories from turns of a conversation."""

HOST_HOOK = "host_hook"
"""Job that takes a host's native event and returns its native output."""

ACK = b'{"ack":1}'
REPLY_TTL_MS = 5_000
WAKE_TTL_MS = 5_000

MAX_WAITING = 200
"""Maximum waiting jobs; more are refused as busy."""

ENQUEUE_TIMEOUT = 0.25
"""Seconds to connect to Redis and enqueue a job."""

ACK_TIMEOUT = 0.2
"""Seconds for a worker to see a job; then the caller continues without memory."""

GIVE_UP_TIMEOUT = 0.1
"""Seconds to withdraw a job that no worker accepted."""

COMMIT_TIMEOUT = 0.05
"""Seconds that a caller with an answer spends on updating the ledger."""

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
"""KEYS: job, queue, wake, alive. ARGV: id, job JSON, budget in ms, `MAX_WAITING`, TTL of wake in ms."""

GIVE_UP = """
if redis.call('EXISTS', KEYS[4], KEYS[5]) > 0 then return 'ACCEPTED' end
redis.call('LREM', KEYS[3], 1, ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('DEL', KEYS[1])
return 'OK'
"""
"""Withdraw a job, unless a worker has accepted it meanwhile. KEYS: job, queue, wake, in progress, reply. ARGV: id."""

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
"""Mark the memories offered in a turn as shown. Return 0 for an unknown turn. KEYS: ledger. ARGV: turn id.

Without KEYS, ARGV is the raw `commit` member of an answer, so that callers need not parse it.
"""

_TRACEPARENT_LENGTH = 55
_TRACEPARENT_CHARACTERS = frozenset("0123456789abcdef-")

_SAFE_SOCKET_BYTES = 100
"""A Unix socket's address holds 108 bytes on Linux and 104 on macOS."""


def job_json(
    function: str, payload: bytes, budget_ms: int, enqueued_ms: int, traceparent: "str | None" = None
) -> bytes:
    """Return a job in the layout of arq, with `payload`, a JSON object, inserted unparsed.

    `traceparent` names the caller's span, as W3C Trace Context defines it.
    """
    head = b'{"t":null,"f":"%s","a":[],"k":{"payload":' % function.encode()
    trace = b',"traceparent":"%s"' % traceparent.encode() if traceparent else b""
    return b'%s%s,"budget_ms":%d%s},"et":%d}' % (head, payload, budget_ms, trace, enqueued_ms)


def traceparent_in(environ: "Mapping[str, str]") -> "str | None":
    """Return the span that `TRACEPARENT` names, as OpenTelemetry passes it to processes; `None` if it names none."""
    given = environ.get("TRACEPARENT", "")
    return given if len(given) == _TRACEPARENT_LENGTH and _TRACEPARENT_CHARACTERS.issuperset(given) else None


def enqueue_keys(job_id: str) -> tuple[str, str, str, str]:
    """Return the KEYS of `ENQUEUE`."""
    return (JOB_PREFIX + job_id, QUEUE, WAKE, ALIVE)


def give_up_keys(job_id: str) -> tuple[str, str, str, str, str]:
    """Return the KEYS of `GIVE_UP`."""
    return (JOB_PREFIX + job_id, QUEUE, WAKE, IN_PROGRESS_PREFIX + job_id, REPLY_PREFIX + job_id)


def socket_path(home: str) -> str:
    """Return the socket of the embedded Valkey for the data folder `home`, an absolute path.

    It is in `home`, or in a short private folder if that path is too long for a socket address.
    """
    path = home + "/valkey.sock"
    if len(os.fsencode(path)) <= _SAFE_SOCKET_BYTES:
        return path
    shared = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - its subfolder is private and checked
    return f"{shared.rstrip('/')}/meeseeks-{os.getuid()}-{crc32(os.fsencode(home)):08x}/valkey.sock"


def unix_url(socket_path: str) -> str:
    """Return the URL of a socket, percent-encoded."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.-~"
    return "unix://" + "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in os.fsencode(socket_path))


def default_redis_url(environ: "Mapping[str, str]") -> str:
    """Return `MEESEEKS_REDIS_URL`, or the socket URL of the embedded Valkey in the data folder."""
    return environ.get("MEESEEKS_REDIS_URL") or unix_url(socket_path(data_dir(environ)))


def data_dir(environ: "Mapping[str, str]") -> str:
    """Return the absolute path of the data folder: `MEESEEKS_DATA_DIR`, or the user's default."""
    home = environ.get("MEESEEKS_DATA_DIR")
    if not home:
        shared = environ.get("XDG_DATA_HOME") or "~/.local/share"
        home = f"{shared.rstrip('/')}/meeseeks"
    return os.path.abspath(os.path.expanduser(home))  # noqa: PTH100, PTH111 - pathlib is slow to load


USER_FILE = "user"
"""File in the data folder with the user whose memories hosts get, written by `meeseeks hosts install --user`."""

MOST_USER_BYTES = 2_048


def stored_user(home: str) -> str:
    """Return the user stored in the data folder `home`; empty if there is none."""
    try:
        handle = os.open(f"{home}/{USER_FILE}", os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return ""
    try:
        return os.read(handle, MOST_USER_BYTES).decode("utf-8", "replace").strip()
    finally:
        os.close(handle)
