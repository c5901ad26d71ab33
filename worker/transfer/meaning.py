"""What other systems say about who may see a memory, and when it holds. It keeps its meaning, or the entry is refused.

These rules look at the names that usual systems use. Names that are not listed here are only metadata.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from .dates import read_time
from .entries import LeftOut, Rejected, Remark

_CONVERSATION = ("run_id", "session_id", "conversation_id", "thread_id", "chat_id", "conversation", "thread", "session")
_GROUP = ("group_id", "group_ids", "team_id", "team_ids")
_VISIBILITY = (
    *("visibility", "access", "access_level", "sharing", "audience", "privacy", "acl", "permissions"),
    *("shared_with", "allowed_users", "visible_to", "private", "is_private", "confidential"),
    *("public", "is_public", "shared", "is_shared"),
)
_NEGATED = frozenset({"public", "is_public", "shared", "is_shared"})
_EVERYBODY = frozenset(
    {"public", "everyone", "everybody", "all", "shared", "global", "tenant", "organization", "false"}
)
_OWNER = frozenset({"private", "personal", "user", "owner", "me", "self", "true"})
_BEGINS = ("valid_from", "not_before", "starts_at", "active_from", "effective_from")
_LASTS = ("ttl", "ttl_minutes", "ttl_seconds", "expires_in")
_STATES = ("state", "status", "lifecycle", "lifecycle_state")
_GONE = (
    *("deleted", "is_deleted", "deleted_at", "archived", "is_archived", "archived_at", "forgotten", "invalidated"),
    *("is_expired", "is_outdated", "outdated", "obsolete", "is_obsolete", "superseded", "is_superseded"),
)
_HOLDS = ("is_active", "active", "is_current", "current", "is_latest", "latest", "is_valid", "valid", "enabled")
_PAST = frozenset(
    {"deleted", "archived", "inactive", "expired", "superseded", "invalid", "invalidated", "obsolete", "outdated"}
    | {"retracted", "removed", "forgotten", "deprecated", "disabled", "rejected", "stale", "replaced"}
)
_EMPTY = ("", "none", "null", "no", "0", "[]", "{}")

LIMITS = (*_CONVERSATION, *_GROUP, *_VISIBILITY, *_BEGINS, *_LASTS)
"""Names that limit who may see a memory, or when it holds."""

KEYS = frozenset((*LIMITS, *_STATES, *_GONE, *_HOLDS))
"""Names that these rules read."""


def objection(values: Mapping[str, Any], *, owned: bool, now: datetime) -> Remark | None:
    """Return why an entry must not be imported, or `None`; `owned` says whether it has a user. The line is 0."""
    rules: tuple[Callable[[], Remark | None], ...] = (
        lambda: _gone(values),
        lambda: _of_one_conversation(values),
        lambda: _seen_by_others(values, owned),
        lambda: _holds_at_other_times(values, now),
    )
    return next((found for rule in rules if (found := rule()) is not None), None)


def _gone(values: Mapping[str, Any]) -> Remark | None:
    for key in _GONE:
        if _said(values, key) not in (None, "false"):
            return LeftOut(0, f"deleted or out of date where it comes from ({key})")
    for key in _STATES:
        if (state := _said(values, key)) in _PAST:
            return LeftOut(0, f"deleted or out of date where it comes from ({key}: {state})")
    for key in _HOLDS:
        if key in values and str(values[key]).strip().lower() in ("false", "no", "0"):
            return LeftOut(0, f"deleted or out of date where it comes from ({key}: {values[key]})")
    return None


def _of_one_conversation(values: Mapping[str, Any]) -> Remark | None:
    for key in _CONVERSATION:
        if _said(values, key) is not None:
            reason = "belongs to one conversation, and memories cannot be limited to one; remove the field to import it"
            return Rejected(0, f"{key}: {reason}")
    return None


def _seen_by_others(values: Mapping[str, Any], owned: bool) -> Remark | None:
    reason = "limits who may see it in a way that a scope cannot express; set user, agent or project instead"
    group = None if owned else next((key for key in _GROUP if _said(values, key) is not None), None)
    if group is not None:
        return Rejected(0, f"{group}: {reason}")
    for key in _VISIBILITY:
        said = _said(values, key, keep_no=key in _NEGATED)
        if said is not None and key in _NEGATED:
            said = "private" if said in ("false", "no", "0") else "public"
        if said is None or said in _EVERYBODY or (owned and said in _OWNER):
            continue
        return Rejected(0, f"{key}: {reason}")
    return None


def _holds_at_other_times(values: Mapping[str, Any], now: datetime) -> Remark | None:
    for key in _LASTS:
        if _said(values, key) is not None:
            return Rejected(0, f"{key}: counts from an unknown time; set valid_until instead")
    for key in _BEGINS:
        if _said(values, key) is not None and ((begin := read_time(values[key])) is None or begin > now):
            return Rejected(0, f"{key}: holds only from a later or unknown time; import it when it does")
    return None


def _said(values: Mapping[str, Any], key: str, *, keep_no: bool = False) -> str | None:
    """Return a value as a lower-case word, or `None` if it says nothing."""
    value = values.get(key)
    word = str(value).strip().lower() if value is not None else ""
    return None if word in _EMPTY and not (keep_no and word in ("no", "0")) else word
