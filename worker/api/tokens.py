"""Who may ask: tokens, what they are for, and which addresses may be served without one."""

import hashlib
import hmac
import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.domain.errors import SettingsError
from worker.settings.service import ServiceSettings

SHORTEST = 16
"""Characters of the shortest token that is accepted."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who makes a request. `tenant` is the only one that it may touch; `None` is any. `name` is for logs and limits."""

    name: str
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """The SHA-256 of a token, and who uses it."""

    digest: bytes
    caller: Client


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens that are accepted; without any, nobody is asked for one."""

    known: tuple[Token, ...] = ()

    def find(self, given: str) -> Client | None:
        """Whose token it is. Takes equally long whichever it is and however much of it is right."""
        digest, found = _digest(given), None
        for token in self.known:
            if hmac.compare_digest(token.digest, digest):
                found = token.caller
        return found


def read_tokens(service: ServiceSettings) -> Tokens:
    """The tokens that the settings name. Raises `SettingsError`, which never holds a token."""
    known: list[Token] = []
    if service.http_token is not None:
        known.append(_token(service.http_token, Client("token"), "service.http_token"))
    if service.http_token_file is not None:
        known += _file_tokens(service.http_token_file.expanduser())
    if len({token.digest for token in known}) < len(known):
        raise SettingsError("service.http_token_file: the same token is there twice")
    return Tokens(tuple(known))


def _file_tokens(path: Path) -> Iterator[Token]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SettingsError(f"service.http_token_file: {path} cannot be read: {reason}") from error
    for number, line in enumerate(lines, 1):
        words = line.split(maxsplit=1)
        if words and not words[0].startswith("#"):
            tenant = words[1].strip() if len(words) > 1 else None
            yield _token(words[0], Client(f"token {number}", tenant), f"service.http_token_file: {path}:{number}")


def _token(text: str, caller: Client, place: str) -> Token:
    if len(text) < SHORTEST or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingsError(f"{place}: a token has at least {SHORTEST} characters, all of them ASCII and none a space")
    return Token(_digest(text), caller)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_address(host: str, tokens: Tokens) -> None:
    """Raise `SettingsError` for an address that others reach when nobody is asked for a token."""
    if not tokens.known and not is_loopback(host):
        raise SettingsError(
            f"service.http_host: {host} can be reached from other machines, so a token is needed: set"
            " MEESEEKS_HTTP_TOKEN or http_token_file, or serve at 127.0.0.1"
        )


def local_names(host: str) -> frozenset[str]:
    """Names by which the service is called from its own machine; a page in a browser must not use another one."""
    return frozenset({"localhost", "127.0.0.1", "[::1]", _bracketed(host.lower())})


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def name_in(authority: str) -> str:
    """The host of a Host header or of an Origin, in lower case and without its port."""
    bare = authority.rpartition("://")[2].strip().lower()
    end = bare.find("]")
    return bare[: end + 1] if bare.startswith("[") and end > 0 else bare.partition(":")[0]


def bearer(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    """The token of an Authorization header; `None` where there is none, or more than one."""
    values = [value for name, value in headers if name == b"authorization"]
    scheme, _, token = values[0].decode("latin-1").partition(" ") if len(values) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None
