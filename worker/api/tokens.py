"""Tokens of the HTTP API, and the addresses that need none."""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.domain.errors import SettingsError
from worker.settings.saved import LOCAL
from worker.settings.service import ServiceSettings

SHORTEST = 16
"""Least characters of a token."""

_OPTION = re.compile(r"(?:^|\s+)(?:role=read-only|name=(?P<name>\S{1,80}))$")
"""What may end the line of a token: that it may only read, and the name of whoever has it."""

_LIKE_A_ROLE = re.compile(r"role\s*[=:]|(?:^|\s)read[-_ ]?only$", re.IGNORECASE)
"""What looks like a role: taken for the name of a tenant, it would make a token that may write."""


@dataclass(frozen=True, slots=True)
class Client:
    """The caller of a request. `tenant` restricts it to one tenant; `name` is for logs and rate limits.

    `author` stands in the history of what it changes.
    """

    name: str
    tenant: str | None = None
    may_write: bool = True
    author: str = LOCAL


@dataclass(frozen=True, slots=True)
class Token:
    """The SHA-256 of a token and its caller."""

    digest: bytes
    caller: Client


@dataclass(frozen=True, slots=True)
class Tokens:
    """The accepted tokens; without any, none is required."""

    known: tuple[Token, ...] = ()

    def find(self, given: str) -> Client | None:
        """Return the caller with this token, in constant time."""
        token = self._token(given)
        return token.caller if token else None

    def digest_of(self, given: str) -> bytes | None:
        """Return the digest of an accepted token."""
        token = self._token(given)
        return token.digest if token else None

    def _token(self, given: str) -> Token | None:
        digest, found = _digest(given), None
        for token in self.known:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found


def read_tokens(service: ServiceSettings) -> Tokens:
    """Read the tokens that the settings name. Raise `SettingsError`, without tokens in its message, if that fails."""
    known: list[Token] = []
    if service.http_token is not None:
        known.append(_token(service.http_token, Client("token", author="token"), "service.http_token"))
    if service.http_token_file is not None:
        known += _file_tokens(service.http_token_file.expanduser())
    if len({token.digest for token in known}) < len(known):
        raise SettingsError("service.http_token_file: duplicate token")
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
            place = f"service.http_token_file: {path}:{number}"
            bound, name, may_write = _options(words[1] if len(words) > 1 else "", place)
            caller = Client(f"token {number}", bound or None, may_write, name or f"token {number}")
            yield _token(words[0], caller, place)


def _options(rest: str, place: str) -> tuple[str, str | None, bool]:
    """Return what follows a token: the tenant it is limited to, its name, and whether it may write."""
    rest, name, may_write = rest.strip(), None, True
    while found := _OPTION.search(rest):
        rest, name, may_write = rest[: found.start()], found["name"] or name, may_write and bool(found["name"])
    if _LIKE_A_ROLE.search(rest):
        raise SettingsError(f"{place}: unknown role; end the line with role=read-only, or name no role")
    return rest, name, may_write


def _token(text: str, caller: Client, place: str) -> Token:
    if len(text) < SHORTEST or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingsError(f"{place}: a token needs at least {SHORTEST} printable ASCII characters and no spaces")
    return Token(_digest(text), caller)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_address(host: str, tokens: Tokens) -> None:
    """Raise `SettingsError` if other machines can reach the address and no token is required."""
    if not tokens.known and not is_loopback(host):
        raise SettingsError(
            f"service.http_host: other machines can reach {host}, so it needs a token; set MEESEEKS_HTTP_TOKEN or"
            " http_token_file, or use 127.0.0.1"
        )


def local_names(host: str) -> frozenset[str]:
    """Return the host names that local callers use; web pages must not use others."""
    return frozenset({"localhost", "127.0.0.1", "[::1]", _bracketed(host.lower())})


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def name_in(authority: str) -> str:
    """Return the host of a Host or Origin header in lower case, without the port."""
    bare = authority.rpartition("://")[2].strip().lower()
    end = bare.find("]")
    return bare[: end + 1] if bare.startswith("[") and end > 0 else bare.partition(":")[0]


def bearer(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    """Return the token of the Authorization header, or `None` if there is not exactly one."""
    values = [value for name, value in headers if name == b"authorization"]
    scheme, _, token = values[0].decode("latin-1").partition(" ") if len(values) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None
