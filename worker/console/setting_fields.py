"""The controls of the settings pages, made from the settings model. Pure."""

import re
from collections.abc import Mapping
from enum import Enum, StrEnum
from types import NoneType
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from worker.operations.results import SettingSource, SettingsResult, SettingValue
from worker.settings.file import Origin
from worker.settings.injection import InjectionConfig, Pattern

FIELDS: Mapping[str, FieldInfo] = InjectionConfig.model_fields
AMBIENT, ADVANCED = "Ambient Awareness", "Advanced"

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Memory Injection": ("enabled",),
    "Contextual Search": (
        *("search_limit", "pool_limit", "max_total"),
        *("contextual_min_score", "recall_min_score", "keyword_min_score"),
    ),
    "Deduplication": ("semantic_threshold", "context_window_depth"),
    AMBIENT: ("ambient_enabled", "pinned_types", "pinned_limit", "pinned_sort"),
    "Triage": ("strategy", "relevance_profile", "mode", "models", "prompt", "triage_candidates", "max_recalls"),
    "Budgets": (
        *("max_items", "max_chars", "max_tokens", "max_item_chars", "deadline_ms"),
        "max_injected_blocks_in_history",
    ),
}
"""Keys by section; all others are advanced."""

LABELS = {
    "enabled": "Enable memory injection",
    "context_window_depth": "Re-injection delay (turns)",
    "ambient_enabled": "Enabled",
    "pinned_limit": "Per-type limit",
    "pinned_sort": "Sort by",
}
"""Names that say more than the key does."""

_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
"""A link of the documentation, of which a page shows the words."""

SOURCES = {
    "default": "built in",
    "file": "from the file",
    "override": "saved for all agents",
    "agent file": "from the agent's table in the file",
    "agent override": "saved for this agent",
}


class Control(StrEnum):
    TOGGLE = "toggle"
    CHOICE = "choice"
    CHECKS = "checks"
    LINES = "lines"
    NUMBER = "number"
    TEXT = "text"


class SettingField(BaseModel):
    """One setting: `text` is in the control, `was` in force when it was shown; `theirs` was saved meanwhile.

    `overridden` values were saved for what is shown; `own` ones also stand in the agent's table in the file.
    """

    key: str
    label: str
    about: str
    control: Control
    choices: tuple[str, ...]
    limits: str
    text: str
    was: str
    source: str
    overridden: bool
    own: bool
    without: str | None
    differ: int
    error: str | None = None
    theirs: str | None = None
    theirs_by: str | None = None


class SettingSection(BaseModel):
    name: str
    fields: list[SettingField]


def sections(view: SettingsResult) -> list[SettingSection]:
    """Return every setting of a view with what its control needs."""
    named = {key for keys in SECTIONS.values() for key in keys}
    rest = tuple(key for key in FIELDS if key not in named)
    return [
        SettingSection(name=name, fields=[_field(key, view) for key in keys])
        for name, keys in {**SECTIONS, ADVANCED: rest}.items()
    ]


def _field(key: str, view: SettingsResult) -> SettingField:
    field, value = FIELDS[key], view.memory_injection[key]
    text = text_of(key, value.value)
    return SettingField(
        key=key,
        label=label_of(key),
        about=_LINK.sub(r"\1", field.description or ""),
        control=control_of(field),
        choices=_choices(field),
        limits=_limits(field),
        text=text,
        was=text,
        source=_source(value),
        overridden=value.inherited is not None,
        own=value.inherited is not None or value.origin == Origin.AGENT_FILE,
        without=_without(key, value),
        differ=0 if view.agent else sum(key in agent.get("keys", ()) for agent in view.agents.values()),
    )


def name_of(key: str) -> str:
    """Return the name of a setting outside its section."""
    return f"{AMBIENT} enabled" if key == "ambient_enabled" else label_of(key)


def label_of(key: str) -> str:
    return LABELS.get(key, key.replace("_", " ").capitalize())


def text_of(key: str, value: Any) -> str:
    """Return a value as its control holds it; lists have a line for each part."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        choices = _choices(FIELDS[key])
        return "\n".join(choice for choice in choices if choice in value) if choices else "\n".join(value)
    return "" if value is None else str(value)


def value_of(key: str, text: str) -> Any:
    """Return what a control holds as a value to save; the settings model checks it."""
    field = FIELDS[key]
    match control_of(field):
        case Control.TOGGLE:
            return text == "true"
        case Control.CHECKS | Control.LINES:
            return text.splitlines()
    return None if not text and _optional(field) else text


def held(key: str, text: str) -> str:
    """Return the text of a control without blank lines, and without blanks around a line unless it is a pattern."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines if _is_pattern(FIELDS[key]) else [line.strip() for line in lines])


def _is_pattern(field: FieldInfo) -> bool:
    return Pattern in get_args(_kind(field))


def control_of(field: FieldInfo) -> Control:
    kind = _kind(field)
    if get_origin(kind) is tuple:
        return Control.CHECKS if _choices(field) else Control.LINES
    if kind is bool:
        return Control.TOGGLE
    if kind in (int, float):
        return Control.NUMBER
    return Control.CHOICE if _choices(field) else Control.TEXT


def _optional(field: FieldInfo) -> bool:
    return NoneType in get_args(field.annotation)


def _kind(field: FieldInfo) -> Any:
    parts = get_args(field.annotation)
    return next(part for part in parts if part is not NoneType) if _optional(field) else field.annotation


def _choices(field: FieldInfo) -> tuple[str, ...]:
    kind = _kind(field)
    kind = get_args(kind)[0] if get_origin(kind) is tuple else kind
    return tuple(str(member.value) for member in kind) if isinstance(kind, type) and issubclass(kind, Enum) else ()


def _limits(field: FieldInfo) -> str:
    """Return the range in words, with the default."""
    names = ("ge", "gt", "le")
    found = {name: getattr(limit, name) for limit in field.metadata for name in names if hasattr(limit, name)}
    low, high = found.get("ge"), found.get("le")
    above = f"more than {found['gt']}" if "gt" in found else f"at least {low}" if low is not None else ""
    spread = f"{low} to {high}" if low is not None and high is not None else above
    spread += f", at most {high}" if "gt" in found and high is not None else ""
    default = field.get_default(call_default_factory=True)
    plain = [str(part) for part in default] if isinstance(default, tuple) else [str(default)]
    shown = "unset" if default is None else ", ".join(plain) or "none"
    shown = str(default).lower() if isinstance(default, bool) else shown
    many = len(shown) > 60
    return f"{spread}; default {shown}".removeprefix("; ") if not many else f"default: {len(plain)} of them"


def _source(value: SettingSource) -> str:
    words = SOURCES.get(value.origin, value.origin)
    return f"{words}, {value.at.rpartition('/')[2]}" if value.at else words


def _without(key: str, value: SettingValue) -> str | None:
    if value.inherited is None:
        return None
    text = ", ".join(text_of(key, value.inherited.value).splitlines()) or "unset"
    return f"{text} ({_source(value.inherited)})"
