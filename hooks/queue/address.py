"""Addresses of Redis: one server, or sentinels that know which server is the master."""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection, parse_url
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool

SENTINEL_TIMEOUT = 0.08
"""Seconds to connect to a sentinel, and to wait for its reply, so that a caller can try several."""

SENTINEL_PORT = 26379

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")

NO_CLUSTER = (
    "Redis Cluster is not supported, because a job and the queue must be on one server; use a single server with"
    " redis:// or rediss://, or sentinels with redis+sentinel://"
)

_TLS_OPTIONS = frozenset(
    f"ssl_{name}" for name in ("ca_certs", "certfile", "keyfile", "cert_reqs", "check_hostname", "ciphers")
)
_OPTIONS = _TLS_OPTIONS | {
    *("db", "username", "password", "protocol", "client_name", "max_connections", "health_check_interval"),
    *("socket_timeout", "socket_connect_timeout", "socket_keepalive", "retry_on_timeout"),
}
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")


class RedisAddressError(ValueError):
    """The URL of Redis is invalid. The message says what to do, and quotes no credentials."""


class _DropsHalfOpened(ConnectionPool):
    """Pool that drops connections with an incomplete handshake, whose late replies would answer later commands."""

    async def ensure_connection(self, connection: AbstractConnection) -> None:
        ready = False
        try:
            await super().ensure_connection(connection)
            ready = True
        finally:
            if not ready:
                await connection.disconnect(nowait=True)


class _SentinelPool(_DropsHalfOpened, SentinelConnectionPool):
    """Pool of connections to the master; when all are closed, those to the sentinels are, too."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await super().disconnect(inuse_connections)
        if inuse_connections:
            for sentinel in self.sentinel_manager.sentinels:
                await sentinel.aclose()


def open_pool(url: str, timeouts: Mapping[str, float | None]) -> ConnectionPool:
    """Return a pool for `url`, which connects on first use. Raise `RedisAddressError` if the URL is invalid."""
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme.endswith("+cluster"):
        raise RedisAddressError(NO_CLUSTER)
    if scheme not in SCHEMES:
        raise RedisAddressError("the URL of Redis must start with " + ", ".join(f"{name}://" for name in SCHEMES))
    fixed: dict[str, Any] = {**timeouts, "lib_name": None, "lib_version": None}
    if scheme.endswith("+sentinel"):
        return _sentinel_pool(url, fixed)
    return _DropsHalfOpened(**{**fixed, **_parsed(url)})


def _parsed(url: str) -> dict[str, Any]:
    """Return the arguments of a connection that a URL of one server names; TLS checks the name of the host."""
    _check_options(url)
    try:
        options: dict[str, Any] = dict(parse_url(url))
    except ValueError:
        # its text quotes parts of the URL, which may be of the password
        raise RedisAddressError(
            "the URL of Redis is invalid: write it as redis://user:password@host:port/database, with characters such"
            " as / # ? @ in the password percent-encoded"
        ) from None
    checked = options.get("ssl_cert_reqs") != "none"  # a name without a certificate to trust says nothing
    return {"ssl_check_hostname": checked, **options} if url.startswith("rediss") else options


def _query_of(url: str) -> list[tuple[str, str]]:
    """Return the options of a URL; a plus is a plus, as in its password."""
    return parse_qsl(url.partition("?")[2].replace("+", "%2B"))


def _check_options(url: str) -> None:
    allowed = _OPTIONS if url.startswith("rediss") else _OPTIONS - _TLS_OPTIONS
    for name, _ in _query_of(url):
        if name in _TLS_OPTIONS and name not in allowed:
            raise RedisAddressError(f"{name} in the URL of Redis needs TLS; start the URL with rediss")
        if name not in allowed:
            raise RedisAddressError(f"the URL of Redis has an unknown option; it may have {', '.join(sorted(allowed))}")


def _sentinel_pool(url: str, fixed: dict[str, Any]) -> ConnectionPool:
    scheme, _, rest = url.replace("+sentinel", "", 1).partition("://")
    location = rest.partition("?")[0]
    servers, _, path = location.partition("/")
    credentials, at, hosts = servers.rpartition("@")
    master, _, database = path.strip("/").partition("/")
    if not master:
        raise RedisAddressError(
            "the URL of Redis lacks the name of the sentinels' master; write it as"
            " redis+sentinel://user:password@host:26379,host:26379/master-name/database"
        )
    query = _query_of(url)
    of_server = urlencode([(name, value) for name, value in query if name not in _SENTINEL_OPTIONS])
    options = _parsed(f"{scheme}://{credentials}{at}master/{database}?{of_server}")
    for name in ("host", "port", "connection_class"):
        options.pop(name, None)
    tls = {"ssl": True, **{name: value for name, value in options.items() if name.startswith("ssl_")}}
    own = {name.removeprefix("sentinel_"): value for name, value in query if name in _SENTINEL_OPTIONS}
    asking = {"socket_connect_timeout": SENTINEL_TIMEOUT, "socket_timeout": SENTINEL_TIMEOUT, **own}
    encrypted = scheme == "rediss"
    make_sentinel: Any = Sentinel  # redis-py does not annotate it
    sentinels = make_sentinel(_sentinels(hosts), sentinel_kwargs={**asking, **(tls if encrypted else {})})
    make_pool: Any = _SentinelPool
    return cast("ConnectionPool", make_pool(unquote(master), sentinels, **{**fixed, **options, "ssl": encrypted}))


def _sentinels(hosts: str) -> list[tuple[str, int]]:
    try:
        found = [urlsplit(f"//{host}") for host in hosts.split(",")]
        named = [(unquote(host.hostname or ""), host.port or SENTINEL_PORT) for host in found]
    except ValueError:
        named = [("", 0)]
    if not all(name for name, _ in named):
        raise RedisAddressError("the URL of Redis is invalid: each sentinel must be host:port, separated by commas")
    return named
