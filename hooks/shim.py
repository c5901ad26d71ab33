"""`meeseeks-hook [HOST]`: the command that hosts run before every turn.

With a host name, it reads that host's native event from standard input and prints the native output, if there is any.
Without one, it reads an injection request and prints the result.

On any error it prints the host's "nothing" and exits with status 0, so that the host continues without memory. It loads
only small modules of the standard library. It starts fastest as a bare file: `python -I -S .../hooks/shim.py`.

Environment variables:
- MEESEEKS_REDIS_URL (unix:// or redis://) or MEESEEKS_DATA_DIR: location of the queue.
- MEESEEKS_URL and MEESEEKS_TOKEN: use the HTTP API instead.
- MEESEEKS_TIMEOUT_MS: time limit; defaults to `deadline_ms` of the request, or 2800.
- MEESEEKS_TENANT, MEESEEKS_USER and MEESEEKS_PROJECT: scope of a host's event. The user defaults to the one stored by
  `meeseeks hosts install HOST --user NAME`, the project to that of the repository in which the host works.
- TRACEPARENT: the caller's span, which the service's spans are below.
- MEESEEKS_DISABLE=1: do nothing.
- MEESEEKS_DEBUG=1: explain each outcome in one line on standard error.
"""

import _thread
import os
import sys
import time

if __package__:
    from .protocol import console, http1, repository, resp, size, wire
else:
    # pathlib is slow to load
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "protocol"))  # noqa: PTH100, PTH118, PTH120
    import console  # type: ignore[import-not-found,no-redef]
    import http1  # type: ignore[import-not-found,no-redef]
    import repository  # type: ignore[import-not-found,no-redef]
    import resp  # type: ignore[import-not-found,no-redef]
    import size  # type: ignore[import-not-found,no-redef]
    import wire  # type: ignore[import-not-found,no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

DEFAULT_TIMEOUT_MS = 2800
MOST_PATH_BYTES = 16_384
_CHUNK = 65_536
_BLANKS = b" \t\r\n"
_OPENERS = b"{["
_CLOSERS = b"}]"
_SCOPE = {"tenant": "MEESEEKS_TENANT", "user": "MEESEEKS_USER", "project": "MEESEEKS_PROJECT"}


class ShimError(Exception):
    """The command has nothing to print; the message says why."""


class BrokenInput(ShimError):
    """Standard input holds no request; this is said even without `MEESEEKS_DEBUG`."""


class Value:
    """The bytes of a JSON object, and its top-level `deadline_ms` and `cwd` if any.

    Only strings and brackets are checked; the service finds other errors.
    """

    __slots__ = ("cwd", "deadline_ms", "raw")

    def __init__(self, raw: bytes, deadline_ms: int | None, cwd: str = "") -> None:
        self.raw = raw
        self.deadline_ms = deadline_ms
        self.cwd = cwd


def first_object(data: bytes) -> Value | None:
    """Return the object at the start of `data`, or `None` if it is incomplete. Raise `ShimError` if there is none."""
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip(_BLANKS)
    if data and data[:1] != b"{":
        raise BrokenInput("standard input does not start with a JSON object")
    # overwrite escapes at equal length, so that every remaining quote starts or ends a string
    segments = data.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
    depth, position, deadline_ms, folder = 0, 0, None, ""
    for index, segment in enumerate(segments):
        if index % 2 == 0:
            depth, end = _depth_after(segment, depth)
            if end is not None:
                return Value(data[: position + end], deadline_ms, folder)
        elif depth == 1 and segment == b"deadline_ms" and index + 1 < len(segments):
            deadline_ms = _leading_number(segments[index + 1])
        elif depth == 1 and segment == b"cwd" and index + 2 < len(segments) and segments[index + 1].strip() == b":":
            start = position + len(segment) + 1 + len(segments[index + 1]) + 1
            folder = _unescaped(data[start : start + len(segments[index + 2])])
        position += len(segment) + 1
    return None


def _unescaped(raw: bytes) -> str:
    """Return the text of a JSON string; empty if it is too long for a path or has an unknown escape."""
    if len(raw) > MOST_PATH_BYTES:
        return ""
    text, *rest = raw.decode("utf-8", "replace").replace("\\\\", "\0").split("\\")
    for part in rest:
        if part[:1] in ('"', "/"):
            text += part
        elif part[:1] == "u" and len(part) > 4 and all(digit in "0123456789abcdefABCDEF" for digit in part[1:5]):
            text += chr(int(part[1:5], 16)) + part[5:]
        else:
            return ""
    units = text.replace("\0", "\\").encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace")


def _depth_after(segment: bytes, depth: int) -> tuple[int, int | None]:
    """Return the nesting depth after a segment, and the offset after the final closing bracket if it is in there."""
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
    """Read until an object is complete, because a host may keep the pipe open."""
    data = bytearray()
    while True:
        chunk = os.read(descriptor, _CHUNK)
        data += chunk
        if not chunk or chunk.rstrip(_BLANKS)[-1:] == b"}":
            value = first_object(bytes(data))
            if value is not None:
                return value
        if not chunk:
            fault = "ends with an incomplete JSON object" if data.strip() else "is empty"
            raise BrokenInput(f"standard input {fault}")


def ask(connection: resp.Connection, address: resp.Address, function: str, payload: bytes, end: float) -> bytes:
    """Run the job `function` and return its answer before `end`, in monotonic seconds."""
    job_id = os.urandom(16).hex()
    budget_ms = _left_ms(end)
    job = wire.job_json(function, payload, budget_ms, int(time.time() * 1000), wire.traceparent_in(os.environ))
    limits = (budget_ms, wire.MAX_WAITING, wire.WAKE_TTL_MS)
    reply_key = wire.REPLY_PREFIX + job_id
    connection.send(
        ("EVAL", wire.ENQUEUE, 4, *wire.enqueue_keys(job_id), job_id, job, *limits),
        ("BLPOP", reply_key, round(budget_ms / 1000 + 0.1, 3)),
    )
    status = connection.read()
    if status != b"OK":
        raise ShimError(f"the queue refused the job: {status!r}")
    answer = _first_message(connection, address, job_id, end)
    if answer == wire.ACK:
        connection.deadline = end
        connection.send(("BLPOP", reply_key, round(end - time.monotonic() + 0.1, 3)))
        answer = _message(connection.read())
    return answer


def _first_message(connection: resp.Connection, address: resp.Address, job_id: str, end: float) -> bytes:
    """Return the first message. If none arrives in time, withdraw the job."""
    connection.deadline = min(end, time.monotonic() + wire.ACK_TIMEOUT)
    try:
        return _message(connection.read())
    except TimeoutError:
        _withdraw(address, job_id)
    connection.deadline = end
    return _message(connection.read())


def _withdraw(address: resp.Address, job_id: str) -> None:
    """Withdraw a job, on another connection. Raise `ShimError` unless a worker has accepted it."""
    connection = resp.Connection(address, time.monotonic() + wire.GIVE_UP_TIMEOUT)
    connection.send(("EVAL", wire.GIVE_UP, 5, *wire.give_up_keys(job_id), job_id))
    if connection.read() != b"ACCEPTED":
        raise ShimError("no worker accepted the job in time")


def _message(reply: object) -> bytes:
    if isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], bytes):
        return reply[1]
    raise ShimError(f"Redis answered {reply!r}")


def split_answer(answer: bytes) -> tuple[bytes, bytes]:
    """Return the raw `commit` and `ok` members of a worker's answer; see `wire`."""
    head, mark, rest = answer.partition(b',"ok":')
    if not head.startswith(b'{"commit":') or not mark or not rest.endswith(b"}"):
        raise ShimError("the worker answered " + answer[:200].decode("ascii", "replace"))
    return head[len(b'{"commit":') :], rest[:-1]


def native(host: str, request: Value, end: float, environ: "Mapping[str, str]") -> bytes:
    """Return the payload of the host hook job."""
    scope = ",".join(f'"{name}":{json_text(value)}' for name, value in scope_of(request, environ).items())
    head = f'{{"host":{json_text(host)},"deadline_ms":{_left_ms(end)},"scope":{{{scope}}},"event":'
    return b"%s%s}" % (head.encode(), request.raw)


def scope_of(request: Value, environ: "Mapping[str, str]") -> "dict[str, str]":
    """Return whose memories a host's event gets: what the environment says, else the stored user and the repository."""
    scope = {name: environ[variable] for name, variable in _SCOPE.items() if environ.get(variable)}
    if "user" not in scope and (user := wire.stored_user(wire.data_dir(environ))):
        scope["user"] = user
    if "project" not in scope and request.cwd:
        identity, folder = repository.project_of(request.cwd)
        scope |= {name: value for name, value in (("repository", identity), ("folder", folder)) if value}
    if console.debugs():
        scope["explain"] = "1"
    return scope


def json_text(text: str) -> str:
    """Return `text` as an ASCII JSON string."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [units[place] << 8 | units[place + 1] for place in range(0, len(units), 2)]
    return '"' + "".join(chr(code) if _is_plain(code) else f"\\u{code:04x}" for code in codes) + '"'


def _is_plain(code: int) -> bool:
    return 0x20 <= code < 0x7F and code not in b'"\\'


def serve(start: float, watchdog: "Watchdog", host: str | None) -> None:
    """Serve one request. `start` is the start of the process in monotonic seconds."""
    limit_ms = _limit_ms(os.environ.get("MEESEEKS_TIMEOUT_MS", ""))
    watchdog.exit_at(start + (limit_ms or DEFAULT_TIMEOUT_MS) / 1000)
    request = read_request(0)
    watchdog.request = request.raw = size.bounded(request.raw)
    if limit_ms is None and request.deadline_ms and host is None:
        watchdog.exit_at(start + min(request.deadline_ms, wire.MAX_BUDGET_MS) / 1000)
    url = os.environ.get("MEESEEKS_URL")
    if url:
        over_http(url, host, request, watchdog.end)
    else:
        over_redis(host, request, watchdog.end)


def over_http(url: str, host: str | None, request: Value, end: float) -> None:
    """Call the HTTP API, which marks the memories as shown itself."""
    headers = {"Content-Type": "application/json", "X-Deadline-Ms": str(_left_ms(end))}
    if os.environ.get("MEESEEKS_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["MEESEEKS_TOKEN"]
    if (traceparent := wire.traceparent_in(os.environ)) is not None:
        headers["traceparent"] = traceparent
    path = f"/v1/hooks/{host}{query(scope_of(request, os.environ))}" if host else "/v1/inject"
    _print(_explained(http1.post(url, path, headers, request.raw, end), host))


def query(scope: "Mapping[str, str]") -> str:
    """Return the scope as a URL query."""
    pairs = [f"{name}={_escaped(value)}" for name, value in scope.items()]
    return "?" + "&".join(pairs) if pairs else ""


def _escaped(text: str) -> str:
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"%{byte:02X}" for byte in os.fsencode(text))


def over_redis(host: str | None, request: Value, end: float) -> None:
    """Call a worker through the queue, then mark the printed memories as shown."""
    function, payload = wire.INJECT, request.raw
    if host:
        function, payload = wire.HOST_HOOK, native(host, request, end, os.environ)
    address = resp.Address.parse(wire.default_redis_url(os.environ))
    connection = resp.Connection(address, min(end, time.monotonic() + wire.ENQUEUE_TIMEOUT))
    commit, result = split_answer(ask(connection, address, function, payload, end))
    _print(_explained(result, host))
    if commit != b"null":
        connection.deadline = min(end, time.monotonic() + wire.COMMIT_TIMEOUT)
        connection.send(("EVAL", wire.COMMIT, 0, commit))
        connection.read()


def _left_ms(end: float) -> int:
    return max(1, int((end - time.monotonic()) * 1000))


def _limit_ms(text: str) -> int | None:
    return min(int(text), wire.MAX_BUDGET_MS) if text.isdigit() and len(text) < 10 and int(text) > 0 else None


def _explained(result: bytes, host: str | None) -> bytes:
    """Return the output in `result`; with `MEESEEKS_DEBUG=1`, explain it first."""
    if not console.debugs() or not result.strip():
        return result
    import json  # slow to load, and only needed here  # noqa: PLC0415

    answer: Any = json.loads(result)
    if host is None:
        console.explain(_outcome(answer))
    elif "explanation" in answer and "output" in answer:
        console.explain(str(answer["explanation"]))
        return json.dumps(answer["output"], separators=(",", ":")).encode("ascii")
    return result


def _outcome(answer: "Mapping[str, Any]") -> str:
    """Return what came of a request that no host sent."""
    outcome, reason, receipt = (answer.get(name) for name in ("outcome", "reason", "receipt_id"))
    found = str(outcome) if outcome == "injected" else f"no memory: {outcome}"
    return f"{found}{f' ({reason})' if reason else ''}{f', receipt {receipt}' if receipt else ''}"


def _print(result: bytes) -> None:
    """Write a non-empty result as one line."""
    if result.strip() not in (b"", console.EMPTY):
        console.write(1, result + b"\n")


class Watchdog:
    """Exit the process at a set time, even during a blocking call such as a name lookup."""

    end = 0.0
    request = b""
    """What was read, as far as it was read."""

    def exit_at(self, end: float) -> None:
        """Set or change the time, in monotonic seconds."""
        self.end = end
        _thread.start_new_thread(self._watch, ())

    def _watch(self) -> None:
        while (left := self.end - time.monotonic()) > 0:
            time.sleep(left)
        console.explain("no memory: timed out")
        os._exit(0)


def _fault_of(request: bytes) -> str:
    """Return what is wrong with the JSON of a request that failed."""
    if not request:
        return ""
    import json  # slow to load, and only needed here  # noqa: PLC0415

    try:
        json.loads(request)
    except (ValueError, RecursionError):
        return "standard input is not valid JSON"
    return ""


def _is_off(error: Exception) -> bool:
    return isinstance(error, FileNotFoundError | ConnectionRefusedError)


def _reason(error: Exception) -> str:
    if _is_off(error):
        return "the service is not running; start it with `meeseeks start`"
    if isinstance(error, TimeoutError):
        return "timed out"
    return str(error) if isinstance(error, ShimError) else f"{type(error).__name__}: {error}"


def host_of(arguments: "Sequence[str]") -> str | None:
    """Return the host named on the command line, if any. Raise `ShimError` for other arguments."""
    if not arguments:
        return None
    host = arguments[0]
    if len(arguments) > 1 or not host.replace("-", "").isalnum() or not host.isascii():
        raise BrokenInput("expected at most one argument, the name of a host; see meeseeks-hook --help")
    return host


def main() -> None:
    start = time.monotonic()
    if sys.argv[1:] in (["--help"], ["-h"]):
        console.write(1, console.USAGE)
        return
    if sys.argv[1:] == ["--version"]:
        console.write(1, f"meeseeks-hook {console.VERSION}\n".encode())
        return
    watchdog, host = Watchdog(), None
    try:
        host = host_of(sys.argv[1:])
        if os.environ.get("MEESEEKS_DISABLE", "") not in ("", "0"):
            raise ShimError("switched off by MEESEEKS_DISABLE")
        serve(start, watchdog, host)
    except Exception as error:  # noqa: BLE001 - the host must go on, whatever happens
        broken = str(error) if isinstance(error, BrokenInput) else _fault_of(watchdog.request)
        console.give_nothing(host, broken, _reason(error))
        if _is_off(error) and not broken:
            console.tell_user(host, watchdog.request)
    os._exit(0)


if __name__ == "__main__":
    main()
