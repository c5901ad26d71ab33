"""Minimal blocking Redis client: one connection, RESP 2, standard library only, fast to load.

Methods raise `OSError` (including `TimeoutError` and `ConnectionError`) if the connection fails or its deadline passes.
Error replies are returned as `ServerError` values, because commands are pipelined.
"""

import _socket
import time

Socket = _socket.socket
Command = tuple[bytes | str | int | float, ...]

_CHUNK = 65_536


class ServerError(Exception):
    """An error reply of the server."""


class Address:
    """Address and credentials of a server."""

    __slots__ = ("database", "endpoint", "password", "username")

    def __init__(self, endpoint: "str | tuple[str, int]", username: str, password: str, database: int) -> None:
        self.endpoint = endpoint
        self.username = username
        self.password = password
        self.database = database

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Parse `unix://[user:pass@]/path[?db=n]` or `redis://[user:pass@]host[:port][/db]`.

        Raise `ValueError` for any other URL, including TLS (`rediss://`) and sentinels.
        """
        scheme, mark, rest = url.partition("://")
        if not mark or scheme not in ("unix", "redis"):
            raise ValueError(
                f"this command uses only redis:// and unix://, not {scheme}://; set MEESEEKS_URL to use HTTP instead"
            )
        rest, _, query = rest.partition("?")
        options = dict(part.partition("=")[::2] for part in query.split("&") if part)
        credentials, at, location = rest.rpartition("@")
        username, colon, password = credentials.partition(":") if at else ("", "", "")
        host, _, path = location.partition("/")
        database = options.get("db") or (path.strip("/") if scheme == "redis" else "")
        return cls(
            unquote("/" + path) if scheme == "unix" else _host_and_port(host),
            unquote(username or options.get("username", "")),
            unquote(password if colon else options.get("password", "")),
            int(database or 0),
        )

    def handshake(self) -> list[Command]:
        """Return the first commands of a new connection."""
        commands: list[Command] = []
        if self.password:
            commands.append(("AUTH", self.username or "default", self.password))
        if self.database:
            commands.append(("SELECT", self.database))
        return commands


def _host_and_port(text: str) -> "tuple[str, int]":
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return unquote(host), int(port[1:] or 6379)
    host, _, port = text.partition(":")
    return unquote(host) or "localhost", int(port or 6379)


def unquote(text: str) -> str:
    """Undo percent-encoding."""
    head, *escaped = text.split("%")
    raw = head.encode()
    for part in escaped:
        raw += bytes((int(part[:2], 16),)) + part[2:].encode()
    return raw.decode("utf-8", "surrogateescape")


class Connection:
    """One connection. Calls end by `deadline`, in monotonic seconds."""

    def __init__(self, address: Address, deadline: float) -> None:
        self.deadline = deadline
        self._buffer = b""
        self._handshake = address.handshake()
        self._socket = connect(address.endpoint, deadline)

    def send(self, *commands: Command) -> None:
        """Send commands in one write. A new connection authenticates first."""
        handshake, self._handshake = self._handshake, []
        self._socket.settimeout(seconds_left(self.deadline))
        self._socket.sendall(b"".join(_encoded(command) for command in [*handshake, *commands]))
        for _ in handshake:
            reply = self.read()
            if isinstance(reply, ServerError):
                raise ConnectionError(str(reply))

    def read(self) -> "object":
        """Return the next reply: bytes, an int, a list of them, `None` or a `ServerError`."""
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ServerError(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._bulk(int(rest))
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        raise ConnectionError("not a RESP 2 server")

    def close(self) -> None:
        self._socket.close()

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._buffer += self._received()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _bulk(self, size: int) -> bytes:
        parts, length = [self._buffer], len(self._buffer)
        while length < size + 2:
            parts.append(self._received())
            length += len(parts[-1])
        whole = b"".join(parts)
        self._buffer = whole[size + 2 :]
        return whole[:size]

    def _received(self) -> bytes:
        self._socket.settimeout(seconds_left(self.deadline))
        data = self._socket.recv(_CHUNK)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data


def seconds_left(deadline: float) -> float:
    """Return the seconds until `deadline`. Raise `TimeoutError` if it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline has passed")
    return left


def connect(endpoint: "str | tuple[str, int]", deadline: float) -> _socket.socket:
    """Return a connected socket. Try each address of a host; the name lookup has no deadline."""
    if isinstance(endpoint, str):
        targets: list[tuple[int, str | tuple[object, ...]]] = [(_socket.AF_UNIX, endpoint)]
    else:
        found = _socket.getaddrinfo(endpoint[0], endpoint[1], 0, _socket.SOCK_STREAM)
        targets = [(family, target) for family, _, _, _, target in found]
    fault: OSError = ConnectionError("the host has no address")
    for family, target in targets:
        sock = _socket.socket(family, _socket.SOCK_STREAM)
        try:
            sock.settimeout(max(0.001, deadline - time.monotonic()))
            sock.connect(target)
            if family != _socket.AF_UNIX:
                sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        except OSError as error:
            sock.close()
            fault = error
        else:
            return sock
    raise fault


def _encoded(command: Command) -> bytes:
    parts = [b"*%d\r\n" % len(command)]
    for argument in command:
        raw = argument if isinstance(argument, bytes) else str(argument).encode("utf-8", "surrogateescape")
        parts.append(b"$%d\r\n%s\r\n" % (len(raw), raw))
    return b"".join(parts)
