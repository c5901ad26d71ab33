"""URLs of Redis: what they connect to, and what is said of invalid ones."""

import asyncio
from typing import Any

import pytest
from redis.asyncio.connection import SSLConnection

from hooks.contract import Reason
from hooks.queue import QueueClient, QueueFault, RedisAddressError, connect

SECRET = "hunter2secret"


def arguments(url: str) -> tuple[Any, dict[str, Any]]:
    pool = connect(url).connection_pool
    return pool, pool.connection_kwargs


def test_sentinels_the_master_both_passwords_and_the_database_are_read() -> None:
    url = "redis+sentinel://me:p%40ss%2Fword@one:1001,[::1]:1002,[::2],three/main%20one/4?sentinel_password=s%40&sentinel_username=w"
    pool, said = arguments(url)
    asked = [one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels]
    assert [(one["host"], one["port"]) for one in asked] == [
        ("one", 1001),
        ("::1", 1002),
        ("::2", 26379),
        ("three", 26379),
    ]
    assert {(one["username"], one["password"]) for one in asked} == {("w", "s@")}
    assert pool.service_name == "main one"
    assert (said["username"], said["password"], said["db"]) == ("me", "p@ss/word", 4)


def test_tls_checks_the_certificate_and_the_name_unless_the_url_says_otherwise() -> None:
    pool, said = arguments("rediss://host/0?ssl_ca_certs=/etc/authority.pem")
    assert pool.connection_class is SSLConnection
    assert (said["ssl_check_hostname"], said["ssl_ca_certs"]) == (True, "/etc/authority.pem")
    assert arguments("rediss://host?ssl_check_hostname=no")[1]["ssl_check_hostname"] is False


@pytest.mark.parametrize("url", ["rediss://host?ssl_cert_reqs=none", "rediss+sentinel://host/main?ssl_cert_reqs=none"])
def test_without_a_check_of_the_certificate_no_name_is_checked(url: str) -> None:
    said = arguments(url)[1]
    assert said["ssl_check_hostname"] is False
    kwargs = {name: value for name, value in said.items() if name.startswith("ssl_")}
    context = SSLConnection(host="host", **kwargs).ssl_context.get()
    assert context.check_hostname is False


def test_a_plus_in_a_password_of_sentinels_is_a_plus() -> None:
    pool, _ = arguments("redis+sentinel://one/main?sentinel_password=a+b")
    asked = [one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels]
    assert [one["password"] for one in asked] == ["a+b"]


def test_sentinels_and_their_master_are_asked_over_tls() -> None:
    pool, said = arguments("rediss+sentinel://one,two/main?ssl_ca_certs=/etc/authority.pem")
    assert issubclass(pool.connection_class, SSLConnection)
    sentinel = pool.sentinel_manager.sentinels[0].connection_pool
    assert sentinel.connection_class is SSLConnection
    assert said["ssl_ca_certs"] == sentinel.connection_kwargs["ssl_ca_certs"] == "/etc/authority.pem"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"redis+cluster://:{SECRET}@one:7000,two:7000", "Redis Cluster is not supported"),
        (f"rediss+cluster://:{SECRET}@one", "redis+sentinel://"),
        (f"http://:{SECRET}@host", "must start with redis://, rediss://, unix://, redis+sentinel://"),
        (f"{SECRET}@host:6379", "must start with"),
        (f"redis://:{SECRET}/a@host:6379", "percent-encoded"),
        (f"redis://:{SECRET}@[host", "percent-encoded"),
        (f"redis://:{SECRET}@host:many", "percent-encoded"),
        (f"redis://:{SECRET}@host?db=first", "host:port/database"),
        (f"redis://:{SECRET}@host?ssl_ca_certs=/a.pem", "ssl_ca_certs in the URL of Redis needs TLS"),
        (f"redis://host?pasword={SECRET}", "unknown option; it may have client_name, db"),
        (f"redis+sentinel://:{SECRET}@one:26379", "lacks the name of the sentinels' master"),
        (f"redis+sentinel://:{SECRET}@one:x/main", "host:port"),
        (f"redis+sentinel://:{SECRET}@one,,two/main", "separated by commas"),
        (f"redis+sentinel://one/main?sentinel_pasword={SECRET}", "unknown option"),
    ],
)
def test_an_invalid_url_gets_an_error_that_helps_and_shows_no_password(url: str, said: str) -> None:
    with pytest.raises(RedisAddressError, match="Redis") as raised:
        connect(url)
    assert said in str(raised.value)
    assert SECRET not in str(raised.value)
    with pytest.raises(QueueFault) as fault:
        asyncio.run(QueueClient(url).ask("inject", {}, budget=1.0))
    assert (fault.value.reason, str(fault.value)) == (Reason.QUEUE_UNAVAILABLE, str(raised.value))
