"""What the console asks the access control of the HTTP service."""

from collections.abc import Mapping
from typing import Any, Protocol


class Visitor(Protocol):
    """Who makes a request; `tenant` is the one that a token is bound to, `author` the name for what it changes."""

    @property
    def tenant(self) -> str | None: ...

    @property
    def may_write(self) -> bool: ...

    @property
    def author(self) -> str: ...


class SignIn(Protocol):
    @property
    def lasts_s(self) -> int: ...

    def begin(self, token: str, address: str) -> tuple[str | None, float]:
        """Return the cookie of a new session, `None` for a wrong token, and the seconds to wait if there were many."""
        ...


class AccessControl(Protocol):
    @property
    def needs_token(self) -> bool: ...

    @property
    def masks_secrets(self) -> bool: ...

    @property
    def sessions(self) -> SignIn: ...

    def caller_of(self, scope: Mapping[str, Any]) -> Visitor: ...
