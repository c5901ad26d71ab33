"""What an error of Redis means, in words that say what to do and hold no credentials."""

import ssl
from collections.abc import Iterator

from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

from .address import NO_CLUSTER

UNREACHABLE = "Redis cannot be reached; check MEESEEKS_REDIS_URL"

_CLUSTER = ("CROSSSLOT", "MOVED", "ASK", "CLUSTERDOWN", "Script attempted to access a non local key")
_BY_TYPE: tuple[tuple[type[Exception], str], ...] = (
    (AuthenticationError, "Redis refuses the user or password in its URL; check MEESEEKS_REDIS_URL"),
    (NoPermissionError, "the user of Redis lacks a permission; allow it all commands on the keys arq:* and meeseeks:*"),
    (ReadOnlyError, "this Redis is a replica; name its master, or its sentinels with redis+sentinel://"),
    (OutOfMemoryError, "Redis is full; raise its maxmemory"),
    (BusyLoadingError, "Redis is still loading its data"),
)
_BY_TEXT = (
    (
        "unknown command",
        "this server lacks a command; if it is a sentinel, use redis+sentinel://",
    ),
    ("Invalid Database", "this Redis does not have the database that its URL names; check MEESEEKS_REDIS_URL"),
)


def explain(error: Exception) -> str:
    """Return what `error` means and what to do."""
    if isinstance(error, MasterNotFoundError):
        return _without_master(str(error))
    if (fault := next((one for one in _chain(error) if isinstance(one, ssl.SSLError)), None)) is not None:
        return _without_tls(fault)
    text = str(error)
    if text.startswith(_CLUSTER):
        return f"this Redis is a cluster. {NO_CLUSTER}"
    for kind, meaning in _BY_TYPE:
        if isinstance(error, kind):
            return meaning
    for mark, meaning in _BY_TEXT:
        if mark in text:
            return meaning
    return f"Redis answers with an error: {type(error).__name__}" if isinstance(error, ResponseError) else UNREACHABLE


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what led to it."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _without_master(text: str) -> str:
    if "AuthenticationError" in text:
        return "the sentinels refuse the password; set sentinel_password in the URL of Redis"
    return (
        "no sentinel names a healthy master; if no failover is in progress, check the sentinels' addresses and the"
        " master's name in MEESEEKS_REDIS_URL"
    )


def _without_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of Redis is not accepted: {error.verify_message}; name the authority's file with"
            " ssl_ca_certs in the URL of Redis"
        )
    return "TLS with Redis failed; check that it serves TLS, and ssl_certfile and ssl_keyfile if it asks for them"
