"""`meeseeks-hook [HOST]`: JSON on standard input, JSON on standard output.

With a host's name it reads that host's native event and prints the native output, nothing where that is empty;
without one it reads an injection request and prints the result.

For hosts that run a command before every turn. It leaves with status 0 whatever happens, and on any trouble without
a word, so that the host goes on without memory. It loads nothing but small modules of the standard library, and runs
from the file alone as well, which starts fastest: `python -I -S .../hooks/shim.py`.

Variables: MEESEEKS_REDIS_URL (unix:// or redis://) or MEESEEKS_DATA_DIR say where the queue is; MEESEEKS_URL says
where the HTTP service is, which is asked instead, with MEESEEKS_TOKEN; MEESEEKS_TIMEOUT_MS how long the command may
take (else `deadline_ms` of the request, else 2800); MEESEEKS_TENANT, MEESEEKS_USER and MEESEEKS_PROJECT whose
memories a host's event is served with; MEESEEKS_DISABLE=1 turns it off; MEESEEKS_DEBUG=1 explains trouble on standard
error.
"""

import _thread
import os
import sys
import time

if __package__:
    from . import http1, resp, wire
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is slow to load
    import http1  # type: ignore[import-not-found,no-redef]
    import resp  # type: ignore[import-not-found,no-redef]
    import wire  # type: ignore[import-not-found,no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_TIMEOUT_MS = 2800
_CHUNK = 65_536
_BLANKS = b" \t\r\n"
_OPENERS = b"{["
_CLOSERS = b"}]"
_NOTHING = b"{}"
"""A host's native output where there is nothing to say; printing it would be harmless and serve nobody."""

_SCOPE = {"tenant": "MEESEEKS_TENANT", "user": "MEESEEKS_USER", "project": "MEESEEKS_PROJECT"}


class ShimError(Exception):
    """Why there is nothing to print."""


class Value:
    """The first JSON object of some bytes: its own bytes, and its top-level `deadline_ms` if it has one.

    Only what JSON's grammar of strings and brackets gives away is looked at; whoever parses it finds other faults.
    """

    __slots__ = ("deadline_ms", "raw")

    def __init__(self, raw: bytes, deadline_ms: int | None) -> None:
        self.raw = raw
        self.deadline_ms = deadline_ms


def first_object(data: bytes) -> Value | None:
    """The object that `data` begins with, `None` while it is not complete. Raises `ShimError` where there is none."""
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip(_BLANKS)
    if data and data[:1] != b"{":
        raise ShimError("standard input does not begin with a JSON object")
    # escapes are blotted out byte for byte, so that every quote left begins or ends a string
    segments = data.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
    depth, position, deadline_ms = 0, 0, None
    for index, segment in enumerate(segments):
        if index % 2 == 0:
            depth, end = _depth_after(segment, depth)
            if end is not None:
                return Value(data[: position + end], deadline_ms)
        elif depth == 1 and segment == b"deadline_ms" and index + 1 < len(segments):
            deadline_ms = _leading_number(segments[index + 1])
        position += len(segment) + 1
    return None


def _depth_after(segment: bytes, depth: int) -> tuple[int, int | None]:
    """The depth of nesting after a piece without strings, and the offset behind the bracket that closes it all."""
    for offset, byte in enumerate(segment):
        if byte in _OPENERS:
            depth += 1
        elif byte in _CLOSERS:
            depth -= 1
            if depth == 0:
                return depth, offset + 1
    return depth, None


def _leading_number(segment: bytes) -> int | None:
    digits = segment.lstrip(_BLANKS + b":").partition(b",")[0].strip(_BLANKS + b"}")
    return int(digits) if digits.isdigit() and len(digits) < 10 else None


def read_request(descriptor: int) -> Value:
    """Read until an object is complete or the input ends; a host may well keep its end open."""
    data = b""
    while True:
        chunk = os.read(descriptor, _CHUNK)
        data += chunk
        if not chunk or chunk.rstrip(_BLANKS)[-1:] == b"}":
            value = first_object(data)
            if value is not None:
                return value
        if not chunk:
            raise ShimError("standard input ended before a JSON object did")


def ask(connection: resp.Connection, address: resp.Address, function: str, payload: bytes, end: float) -> bytes:
    """Put the job `function` and wait for its answer until `end`, in seconds of monotonic time."""
    job_id = os.urandom(16).hex()
    budget_ms = _left_ms(end)
    job = wire.job_json(function, payload, budget_ms, int(time.time() * 1000))
    limits = (budget_ms, wire.MAX_WAITING, wire.WAKE_TTL_MS)
    reply_key = wire.REPLY_PREFIX + job_id
    connection.send(
        ("EVAL", wire.ENQUEUE, 4, *wire.enqueue_keys(job_id), job_id, job, *limits),
        ("BLPOP", reply_key, wire.ACK_TIMEOUT),
    )
    put = connection.read()
    if put != b"OK":
        raise ShimError(f"the job was not taken: {put!r}")
    connection.deadline = min(end, time.monotonic() + wire.ACK_TIMEOUT)
    answer = _popped(connection, address, job_id)
    if answer == wire.ACK:
        connection.deadline = end
        connection.send(("BLPOP", reply_key, round(end - time.monotonic() + 0.1, 3)))
        answer = _message(connection.read())
    return answer


def _popped(connection: resp.Connection, address: resp.Address, job_id: str) -> bytes:
    """The first message of the reply list; when none comes in time the job is taken back, on another connection."""
    try:
        return _message(connection.read())
    except (TimeoutError, ShimError):
        second = resp.Connection(address, time.monotonic() + wire.GIVE_UP_TIMEOUT)
        second.send(("EVAL", wire.GIVE_UP, 4, *wire.give_up_keys(job_id), job_id))
        second.read()
        raise ShimError("no worker took the job up in time") from None


def _message(reply: object) -> bytes:
    if isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], bytes):
        return reply[1]
    raise ShimError(f"Redis answered {reply!r}")


def split_answer(answer: bytes) -> tuple[bytes, bytes]:
    """The `commit` and `ok` members of a worker's answer, as they came; see `wire`."""
    head, mark, rest = answer.partition(b',"ok":')
    if not head.startswith(b'{"commit":') or not mark or not rest.endswith(b"}"):
        raise ShimError("the worker answered " + answer[:200].decode("ascii", "replace"))
    return head[len(b'{"commit":') :], rest[:-1]


def native(host: str, event: bytes, end: float, environ: "Mapping[str, str]") -> bytes:
    """The payload that brings a host's native event: who it is, who calls, and until when an answer is of use."""
    scope = ",".join(
        f'"{name}":{json_text(environ[variable])}' for name, variable in _SCOPE.items() if environ.get(variable)
    )
    head = f'{{"host":{json_text(host)},"deadline_ms":{_left_ms(end)},"scope":{{{scope}}},"event":'
    return b"%s%s}" % (head.encode(), event)


def json_text(text: str) -> str:
    """`text` as JSON in ASCII."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [units[place] << 8 | units[place + 1] for place in range(0, len(units), 2)]
    return '"' + "".join(chr(code) if _is_plain(code) else f"\\u{code:04x}" for code in codes) + '"'


def _is_plain(code: int) -> bool:
    return 0x20 <= code < 0x7F and code not in b'"\\'


def serve(start: float, watchdog: "Watchdog", host: str | None) -> None:
    """One question and its answer, for a process that was started at `start`, in seconds of monotonic time."""
    limit_ms = _limit_ms(os.environ.get("MEESEEKS_TIMEOUT_MS", ""))
    watchdog.bark_at(start + (limit_ms or DEFAULT_TIMEOUT_MS) / 1000)
    request = read_request(0)
    if limit_ms is None and request.deadline_ms and host is None:
        watchdog.bark_at(start + min(request.deadline_ms, wire.MAX_BUDGET_MS) / 1000)
    url = os.environ.get("MEESEEKS_URL")
    if url:
        over_http(url, host, request.raw, watchdog.end)
    else:
        over_redis(host, request.raw, watchdog.end)


def over_http(url: str, host: str | None, body: bytes, end: float) -> None:
    """Ask the HTTP service, which itself sees to it that what it delivered counts as shown."""
    headers = {"Content-Type": "application/json", "X-Deadline-Ms": str(_left_ms(end))}
    if os.environ.get("MEESEEKS_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["MEESEEKS_TOKEN"]
    path = f"/v1/hooks/{host}{query(os.environ)}" if host else "/v1/inject"
    _print(http1.post(url, path, headers, body, end))


def query(environ: "Mapping[str, str]") -> str:
    """Who calls, as the query of a URL."""
    said = [f"{name}={_escaped(environ[variable])}" for name, variable in _SCOPE.items() if environ.get(variable)]
    return "?" + "&".join(said) if said else ""


def _escaped(text: str) -> str:
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"%{byte:02X}" for byte in os.fsencode(text))


def over_redis(host: str | None, body: bytes, end: float) -> None:
    """Ask a worker through the queue, and tell the ledger once the answer is out."""
    function, payload = (wire.HOST_HOOK, native(host, body, end, os.environ)) if host else (wire.INJECT, body)
    address = resp.Address.parse(wire.default_redis_url(os.environ))
    connection = resp.Connection(address, min(end, time.monotonic() + wire.ENQUEUE_TIMEOUT))
    commit, result = split_answer(ask(connection, address, function, payload, end))
    _print(result)
    if commit != b"null":
        connection.deadline = min(end, time.monotonic() + wire.COMMIT_TIMEOUT)
        connection.send(("EVAL", wire.COMMIT, 0, commit))
        connection.read()


def _left_ms(end: float) -> int:
    return max(1, int((end - time.monotonic()) * 1000))


def _limit_ms(text: str) -> int | None:
    return min(int(text), wire.MAX_BUDGET_MS) if text.isdigit() and len(text) < 10 and int(text) > 0 else None


def _print(result: bytes) -> None:
    """Write a result as one line; a native "nothing" is not worth one."""
    data = b"" if result.strip() in (b"", _NOTHING) else result + b"\n"
    while data:
        data = data[os.write(1, data) :]


class Watchdog:
    """Ends the process at a time, wherever it hangs by then: in a read, a connect or a name look-up."""

    end = 0.0

    def bark_at(self, end: float) -> None:
        """Set the time, in seconds of monotonic time; the last one set counts."""
        self.end = end
        _thread.start_new_thread(self._watch, ())

    def _watch(self) -> None:
        while (left := self.end - time.monotonic()) > 0:
            time.sleep(left)
        explain("the time is up")
        os._exit(0)


def explain(text: str) -> None:
    if os.environ.get("MEESEEKS_DEBUG") == "1":
        os.write(2, f"meeseeks-hook: {text}\n".encode("utf-8", "backslashreplace"))


def host_of(arguments: "Sequence[str]") -> str | None:
    """The host that the command line names, if it does. Raises `ShimError` for anything else on it."""
    if not arguments:
        return None
    host = arguments[0]
    if len(arguments) > 1 or not host.replace("-", "").isalnum() or not host.isascii():
        raise ShimError("it takes one argument at most, the name of a host")
    return host


def main() -> None:
    """The command."""
    start = time.monotonic()
    if os.environ.get("MEESEEKS_DISABLE", "") not in ("", "0"):
        return
    try:
        serve(start, Watchdog(), host_of(sys.argv[1:]))
    except Exception as error:  # noqa: BLE001 - the host must never be bothered
        explain(f"{type(error).__name__}: {error}")
    os._exit(0)


if __name__ == "__main__":
    main()
