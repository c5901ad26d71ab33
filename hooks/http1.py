"""The least of an HTTP client: one POST over HTTP/1.1, standard library only and quick to load. Plain HTTP alone."""

import time

if __package__:
    from . import resp
else:
    import resp  # type: ignore[import-not-found,no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_BYTES = 4_194_304
"""The longest response that is read to its end."""

_CHUNK = 65_536


class HttpFault(Exception):
    """There is no usable response; the message says why."""


def post(url: str, path: str, headers: "Mapping[str, str]", body: bytes, end: float) -> bytes:
    """The body of the response with status 200, read until `end`, in seconds of monotonic time.

    `path` is put behind what `url` has of its own. Raises `HttpFault`, `OSError`, and `ValueError` for a wrong port.
    """
    host, port, prefix = split_url(url)
    lines = [f"POST {prefix}{path} HTTP/1.1", f"Host: {_authority(host, port)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(body)}")
    if any(character < " " or character == "\x7f" for line in lines for character in line):
        raise HttpFault("control characters in an address or a token")
    link = resp.connected((host, port), end)
    try:
        link.settimeout(_left(end))
        link.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return parse(_received(link, end))
    finally:
        link.close()


def split_url(url: str) -> tuple[str, int, str]:
    """Host, port and path of `http://host[:port][/path]`. Raises `HttpFault` for every other form."""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.lower() != "http":
        raise HttpFault(f"the scheme {scheme}:// is not supported here; use http://")
    authority, slash, path = rest.partition("/")
    if not authority or "@" in authority:
        raise HttpFault("the address must be http://host:port")
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = authority.partition(":")
    return host, int(port or 80), (slash + path).rstrip("/")


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline has passed")
    return left


def _received(link: "resp.Socket", end: float) -> bytes:
    """Everything until the server closes, or until the response is complete by its own length."""
    data = b""
    while len(data) <= MOST_BYTES:
        link.settimeout(_left(end))
        chunk = link.recv(_CHUNK)
        data += chunk
        if not chunk or _is_complete(data):
            return data
    raise HttpFault(f"the response is longer than {MOST_BYTES} bytes")


def _is_complete(data: bytes) -> bool:
    head, mark, body = data.partition(b"\r\n\r\n")
    length = _headers(head).get(b"content-length", b"") if mark else b""
    return length.isdigit() and len(body) >= int(length)


def _headers(head: bytes) -> dict[bytes, bytes]:
    pairs = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def parse(data: bytes) -> bytes:
    """The body of a whole response. Raises `HttpFault` where it is no response, cut short, or its status not 200."""
    head, mark, body = data.partition(b"\r\n\r\n")
    version, _, status = head.split(b"\r\n")[0].partition(b" ")
    if not mark or not version.startswith(b"HTTP/1."):
        raise HttpFault("that is no HTTP service")
    if status[:3] != b"200":
        raise HttpFault("the service answered " + status.decode("latin-1"))
    headers = _headers(head)
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        return _unchunked(body)
    length = headers.get(b"content-length", b"")
    if not length.isdigit():
        return body
    if len(body) < int(length):
        raise HttpFault("the response was cut short")
    return body[: int(length)]


def _unchunked(body: bytes) -> bytes:
    parts: list[bytes] = []
    while True:
        size, mark, rest = body.partition(b"\r\n")
        count = int(size.partition(b";")[0] or b"0", 16) if mark else -1
        if count < 0 or len(rest) < count + 2:
            raise HttpFault("the response was cut short")
        if count == 0:
            return b"".join(parts)
        parts.append(rest[:count])
        body = rest[count + 2 :]
