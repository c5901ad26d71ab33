"""Whose memories a server's tools may touch: configuration or a token says so, never the model. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote


class Backend(Protocol):
    """Does operations of the service by name, within `budget` seconds. Raises `MeeseeksError`."""

    async def call(self, operation: str, payload: dict[str, Any], *, budget: float = 10.0) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class ToolScope:
    """For whom the tools search and write.

    What is written belongs to `user` and `project` where they are set, or with `shared` to everybody of the tenant.
    """

    tenant: str = "default"
    user: str | None = None
    agent: str = "main"
    project: str | None = None
    shared: bool = False

    @property
    def searched(self) -> dict[str, Any]:
        """The scope of a recall."""
        return {"tenant": self.tenant, "user": self.user, "project": self.project}

    @property
    def owner(self) -> dict[str, str]:
        """The scope of a memory that is written."""
        owners = {} if self.shared else {"user": self.user, "project": self.project}
        return {key: value for key, value in owners.items() if value}

    def owns(self, memory: Mapping[str, Any]) -> bool:
        """Whether a memory, as fields, is everybody's or this caller's own: others' are not changed from here."""
        scope = memory.get("scope") or {}
        own = {"user": self.user, "agent": self.agent, "project": self.project}
        return all(scope.get(key) in (None, own[key]) for key in own)


HEADERS = {
    b"meeseeks-tenant": "tenant",
    b"meeseeks-user": "user",
    b"meeseeks-agent": "agent",
    b"meeseeks-project": "project",
}
"""Request headers that a host's configuration sets, in lower case; values may be percent-encoded UTF-8."""

SHARED = b"meeseeks-shared"


def tool_scope_of(headers: Iterable[tuple[bytes, bytes]], tenant: str | None) -> ToolScope:
    """Whose memories a request over HTTP may touch; a token that is bound to `tenant` leaves no choice of it."""
    sent = dict(headers)
    said = {
        field: unquote(sent[name].decode("utf-8", "replace")).strip() for name, field in HEADERS.items() if name in sent
    }
    named = {field: value for field, value in said.items() if value}
    if tenant is not None:
        named["tenant"] = tenant
    shared = sent.get(SHARED, b"").strip().lower() in (b"1", b"true", b"yes")
    return ToolScope(**named, shared=shared)
