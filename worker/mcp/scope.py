"""Access control of the tools: configuration or a token determines the scope, never the model. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

from hooks.contract import trimmed_name
from worker.domain.errors import MemoryRejected
from worker.domain.operation import AnyOperation


class Backend(Protocol):
    """Call operations of the service by name, within `budget` seconds. Raise `MeeseeksError`."""

    async def call(
        self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = 10.0
    ) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class ToolScope:
    """The scope of searches and new memories.

    A new memory belongs to `user` and `project` if they are set, or with `shared` to everybody in the tenant.
    """

    tenant: str = "default"
    user: str | None = None
    agent: str = "main"
    project: str | None = None
    shared: bool = False

    @property
    def searched(self) -> dict[str, Any]:
        """Return the scope of a recall."""
        return {"tenant": self.tenant, "user": self.user, "project": self.project}

    @property
    def owner(self) -> dict[str, str]:
        """Return the scope of a new memory."""
        owners = {} if self.shared else {"user": self.user, "project": self.project}
        return {key: value for key, value in owners.items() if value}

    def owns(self, memory: Mapping[str, Any]) -> bool:
        """Return whether the caller may change a memory: it is shared or the caller's own."""
        scope = memory.get("scope") or {}
        own = {"user": self.user, "agent": self.agent, "project": self.project}
        return all(scope.get(key) in (None, own[key]) for key in own)


HEADERS = {
    b"meeseeks-tenant": "tenant",
    b"meeseeks-user": "user",
    b"meeseeks-agent": "agent",
    b"meeseeks-project": "project",
}
"""Request headers set in the host's configuration, in lower case; values may be percent-encoded UTF-8."""

SHARED = b"meeseeks-shared"


def tool_scope_of(headers: Iterable[tuple[bytes, bytes]], tenant: str | None) -> ToolScope:
    """Return the scope of an HTTP request; the `tenant` of its token overrides the header.

    Raise `MemoryRejected` for a blank name.
    """
    sent = dict(headers)
    named = {field: _name(name, sent[name]) for name, field in HEADERS.items() if name in sent}
    if tenant is not None:
        named["tenant"] = tenant
    shared = sent.get(SHARED, b"").strip().lower() in (b"1", b"true", b"yes")
    return ToolScope(**named, shared=shared)


def _name(header: bytes, value: bytes) -> str:
    try:
        return trimmed_name(unquote(value.decode("utf-8", "replace")))
    except ValueError as error:
        raise MemoryRejected(f"header {header.decode('ascii')}: {error}") from error
