"""Sessions of browsers: a signed cookie stands for a token that was typed in once.

The cookie is signed with the token's digest, so every process that accepts the token accepts it, nothing is stored, and
it ends with the token.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from starlette.requests import cookie_parser

from .rate_limit import RateLimit
from .tokens import Client, Tokens

COOKIE = "meeseeks_session"

SESSION_S = 7 * 86_400
"""Seconds for which a session lasts."""

ATTEMPTS_PER_MINUTE = 10
"""Attempts to sign in that one address has."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Makes and checks sessions; `clock` is in seconds since 1970."""

    tokens: Tokens
    clock: Callable[[], float] = time.time
    attempts: RateLimit = field(default_factory=lambda: RateLimit(ATTEMPTS_PER_MINUTE))
    lasts_s: int = SESSION_S

    def begin(self, token: str, address: str) -> tuple[str | None, float]:
        """Return the cookie of a new session, `None` for a wrong token, and the seconds to wait if there were many."""
        wait = self.attempts.take(address, time.monotonic())
        if wait > 0:
            return None, wait
        digest = self.tokens.digest_of(token)
        if digest is None:
            return None, 0.0
        signed = f"{int(self.clock()) + self.lasts_s}.{secrets.token_urlsafe(16)}"
        return f"{signed}.{_signature(digest, signed)}", 0.0

    def caller(self, headers: Sequence[tuple[bytes, bytes]]) -> Client | None:
        """Return whose session a request belongs to."""
        signed, _, signature = _cookie(headers).rpartition(".")
        ends, _, _ = signed.partition(".")
        if not (ends.isascii() and ends.isdecimal() and len(ends) < 20 and int(ends) > self.clock()):
            return None
        found = None
        for token in self.tokens.known:
            if hmac.compare_digest(_signature(token.digest, signed), signature):
                found = token.caller
        return found


def _signature(digest: bytes, signed: str) -> str:
    return hmac.new(digest, b"session of the console " + signed.encode(), hashlib.sha256).hexdigest()


def _cookie(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """Return the cookie of the session, as browsers send it beside cookies of other services on this host."""
    given = "; ".join(value.decode("latin-1") for name, value in headers if name == b"cookie")
    value = cookie_parser(given).get(COOKIE, "")
    return value if value.isascii() else ""
