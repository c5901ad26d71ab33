"""What requests about memories carry."""

from typing import Any

from pydantic import Field

from hooks.contract import Key, Text
from worker.domain.memory import DomainModel, Memory, MemoryType

MAX_BATCH = 200
"""Memories that one `put` may carry."""


class TenantPayload(DomainModel):
    tenant: Key = "default"


class RememberPayload(TenantPayload):
    memory: dict[str, Any]


class PutPayload(TenantPayload):
    """Memories to store; `mask` masks secrets in them, whatever the settings say."""

    memories: tuple[Memory, ...] = Field(max_length=MAX_BATCH)
    mask: bool = False


class UpdatePayload(TenantPayload):
    """Fields of a memory and their new values."""

    id: Key
    changes: dict[str, Any] = Field(min_length=1)


class RelatePayload(TenantPayload):
    source: Key
    kind: Key
    target: Key


class ForgetPayload(TenantPayload):
    ids: tuple[Key, ...] = Field(min_length=1, max_length=MAX_BATCH)


class ShowPayload(TenantPayload):
    id: Key


class ExportPayload(TenantPayload):
    """A page of a listing: of these types and of this owner; superseded ones are in it."""

    cursor: str | None = None
    limit: int = Field(default=100, ge=1, le=MAX_BATCH)
    types: tuple[MemoryType, ...] = ()
    user: Text | None = None
