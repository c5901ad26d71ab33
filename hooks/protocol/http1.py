"""Minimal HTTP/1.1 client: one POST over plain HTTP, standard library only, fast to load."""

if __package__:
    from . import resp
else:
    import resp  # type: ignore[import-not-found,no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_RESPONSE_BYTES = 4_194_304

_CHUNK = 65_536


class HttpFault(Exception):
    """No usable response; the message says why."""


def post(url: str, path: str, headers: "Mapping[str, str]", body: bytes, end: float) -> bytes:
    """Return the body of a 200 response, received before `end` in monotonic seconds.

    `path` is appended to the path of `url`. Raise `HttpFault`, `OSError`, or `ValueError` for an invalid port.
    """
    host, port, prefix = split_url(url)
    lines = [f"POST {prefix}{path} HTTP/1.1", f"Host: {_authority(host, port)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(body)}")
    if any(character < " " or character == "\x7f" for line in lines for character in line):
        raise HttpFault("the URL or token contains control characters")
    sock = resp.connect((host, port), end)
    try:
        sock.settimeout(resp.seconds_left(end))
        sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return parse(_received(sock, end))
    finally:
        sock.close()


def split_url(url: str) -> tuple[str, int, str]:
    """Return host, port and path of `http://host[:port][/path]`. Raise `HttpFault` for any other URL."""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.lower() != "http":
        raise HttpFault(f"the scheme {scheme}:// is not supported; use http://")
    authority, slash, path = rest.partition("/")
    if not authority or "@" in authority:
        raise HttpFault("the URL must be http://host:port")
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = authority.partition(":")
    return host, int(port or 80), (slash + path).rstrip("/")


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _received(sock: "resp.Socket", end: float) -> bytes:
    """Read until the server closes the connection or the response is complete by its Content-Length."""
    data = b""
    while len(data) <= MAX_RESPONSE_BYTES:
        sock.settimeout(resp.seconds_left(end))
        chunk = sock.recv(_CHUNK)
        data += chunk
        if not chunk or _is_complete(data):
            return data
    raise HttpFault(f"the response is longer than {MAX_RESPONSE_BYTES} bytes")


def _is_complete(data: bytes) -> bool:
    head, mark, body = data.partition(b"\r\n\r\n")
    length = _headers(head).get(b"content-length", b"") if mark else b""
    return length.isdigit() and len(body) >= int(length)


def _headers(head: bytes) -> dict[bytes, bytes]:
    pairs = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def parse(data: bytes) -> bytes:
    """Return the body of a response. Raise `HttpFault` if it is not HTTP, incomplete or not a 200."""
    head, mark, body = data.partition(b"\r\n\r\n")
    version, _, status = head.split(b"\r\n")[0].partition(b" ")
    if not mark or not version.startswith(b"HTTP/1."):
        raise HttpFault("the server does not speak HTTP")
    if status[:3] != b"200":
        raise HttpFault("the service answered " + status.decode("latin-1"))
    headers = _headers(head)
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        return _unchunked(body)
    length = headers.get(b"content-length", b"")
    if not length.isdigit():
        return body
    if len(body) < int(length):
        raise HttpFault("the response is incomplete")
    return body[: int(length)]


def _unchunked(body: bytes) -> bytes:
    parts: list[bytes] = []
    while True:
        size, mark, rest = body.partition(b"\r\n")
        count = int(size.partition(b";")[0] or b"0", 16) if mark else -1
        if count < 0 or len(rest) < count + 2:
            raise HttpFault("the response is incomplete")
        if count == 0:
            return b"".join(parts)
        parts.append(rest[:count])
        body = rest[count + 2 :]
