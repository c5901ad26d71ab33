"""Entries of strangers' files as memories: what is unknown is reported, and what limits a memory is never dropped."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from worker.domain.cues import Cues
from worker.domain.errors import MemoryRejected
from worker.domain.evidence import Evidence
from worker.domain.memory import Memory, Relation
from worker.text.excerpts import shortened
from worker.text.masking import MASK, holds_secret

from .dates import read_time
from .entries import BLANK, Fields, Noted, Rejected, Remark, memory_from, split_names
from .field_names import FIELDS, ORDER, TYPE_NAMES, snake_case
from .meaning import KEYS, objection
from .systems import unpacked

MAX_KEY_CHARS = 512
MAX_SHOWN_CHARS = 40
MAX_PARTS = 100
MAX_VERSION_DIGITS = 9
_SCOPE = ("user", "agent", "project")
_YES, _NO = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0"})
_CUES: TypeAdapter[Any] = TypeAdapter(Cues)
_CONTENT = ("content", *(name for name, meant in FIELDS.items() if meant == "content" and name != "content"))
_NAMELESS = re.compile(r"\[\[(.+?)(?:\|.*)?\]\]|\[(.+?)\]\(.*\)")
"""A name written as a link: `[[Harbour]]`, `[[Harbour|the harbour]]`, `[Harbour](harbour.md)`."""


class _Refused(Exception):
    """The entry cannot be imported; the message says why."""


@dataclass
class _Entry:
    """An entry under construction, with remarks about what is not kept."""

    values: dict[str, Any]
    fields: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def note(self, key: str, value: Any, what: str = "not kept") -> None:
        shown = MASK if holds_secret(f"{key}: {value}") else shortened(str(value), MAX_SHOWN_CHARS)
        self.notes.append(f"{key} {shown!r}: {what}")


def memories_of(found: Fields, today: datetime, now: datetime | None, *, mask: bool) -> Iterator[Memory | Remark]:
    """Yield the memories that an entry stands for, and remarks. Without a date, they get `now` if it is given."""
    for raw in unpacked(found.values):
        if isinstance(raw, Remark):
            yield type(raw)(found.line, raw.reason)
            continue
        try:
            entry = _Entry(_by_name(raw))
            _take_scope(entry)
            against = objection(entry.values, owned="user" in entry.fields.get("scope", {}), now=today)
            if against is not None:
                yield type(against)(found.line, against.reason)
                continue
            _convert(entry)
            memory = memory_from(entry.fields, now, mask=mask)
        except (_Refused, MemoryRejected) as error:
            yield Rejected(found.line, str(error))
            continue
        yield memory
        yield from (Noted(found.line, note) for note in entry.notes)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | tuple | dict) and not value)


def _by_name(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by our names, or by theirs; details under `metadata` count where nothing else is said."""
    given = {snake_case(str(key)): value for key, value in raw.items()}
    more = given.pop("metadata", None)
    if isinstance(more, Mapping):
        inner = {snake_case(str(key)): value for key, value in more.items()}
        given |= {key: value for key, value in inner.items() if _is_nothing(given.get(key))}
    elif not _is_nothing(more):
        given["metadata"] = more
    found: dict[str, Any] = {}
    for key in sorted(given, key=lambda key: ORDER.get(key, len(ORDER))):
        name, value = FIELDS.get(key, key), given[key]
        if name == "content":
            found[key] = value
        elif name == "entities" and name in found and not _is_nothing(value):
            found[name] = [*_names(found[name]), *_names(value)]
        elif name not in found or _is_nothing(found[name]):
            found[name] = value
        elif not _is_nothing(value):
            found[key] = value
    if "content" not in raw and found.get("created_at") is None:
        found.pop("created_at", None)
    return found


def _take_scope(entry: _Entry) -> None:
    """Read who may see the entry; what is unclear refuses it."""
    scope = entry.values.pop("scope", None)
    given = {name: entry.values.pop(name) for name in _SCOPE if name in entry.values}
    if isinstance(scope, str) and scope.strip().lower() not in ("global", "public", "shared", "all", ""):
        raise _Refused(
            f"scope: {shortened(scope, MAX_SHOWN_CHARS)!r} does not say whose it is; set user, agent or project"
        )
    if isinstance(scope, Mapping):
        blank = next((key for key in _SCOPE if scope.get(key) == ""), None)
        if blank is not None:  # an empty cell of a table stands for nothing, but this was written on purpose
            raise _Refused(f"scope.{blank}: must not be blank; leave it out instead")
        given |= scope
    elif not isinstance(scope, str) and not _is_nothing(scope):
        raise _Refused("scope: must be a table with user, agent or project")
    if "channel" in given:
        entry.values.setdefault("channel", given.pop("channel"))
    for key in given.keys() - set(_SCOPE):
        raise _Refused(f"scope.{key}: unknown key")
    named = {key: _one_name(key, value) for key, value in given.items() if not _is_nothing(value)}
    if named:
        entry.fields["scope"] = named


def _one_name(key: str, value: Any) -> str:
    """Return a single name, also from a list of one or a link."""
    while isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _Refused(f"{key}: must be one name, because it limits who may see the memory")
    name = str(value)
    link = _NAMELESS.fullmatch(name.strip())
    name = (link[1] or link[2]) if link else name
    if not name.strip():
        raise _Refused(f"{key}: must be a name, because it limits who may see the memory")
    return name


def _convert(entry: _Entry) -> None:
    _take_content(entry)
    for key, value in entry.values.items():
        if key == "created_at" and value is None:
            entry.fields[key] = None
        elif _is_nothing(value) or key in KEYS:
            continue
        elif key in _READERS:
            _READERS[key](entry, key, value)
        elif key in Memory.model_fields:
            entry.fields[key] = value
        else:
            entry.notes.append(f"{key}: not kept")


def _take_content(entry: _Entry) -> None:
    values = entry.values
    for key in _CONTENT:
        text = _text_in(values.get(key))
        if text is not None and text.strip():
            entry.fields["content"] = text
            del values[key]
            return
    if any(not _is_nothing(values.get(key)) for key in _CONTENT):
        raise _Refused("content: must be text, and must not be blank")
    raise _Refused(BLANK if any(key in values for key in _CONTENT) else "content: is required")


def _text_in(value: Any) -> str | None:
    """Return a text, also from a message whose parts are objects with a text."""
    if isinstance(value, Mapping):
        value = next((value[key] for key in ("text", "content") if isinstance(value.get(key), str)), None)
    if isinstance(value, list) and value:
        parts = [part if isinstance(part, str) else _text_in(part) for part in value[:MAX_PARTS]]
        return None if any(part is None for part in parts) else "\n".join(filter(None, parts))
    return value if isinstance(value, str) else None


def _take_type(entry: _Entry, key: str, value: Any) -> None:
    kind = TYPE_NAMES.get(snake_case(str(value)))
    if kind is None:
        entry.note(key, value, "unknown; stored as fact")
    else:
        entry.fields[key] = kind.value


def _take_time(entry: _Entry, key: str, value: Any) -> None:
    moment = read_time(value)
    if moment is None:
        entry.note(key, value, "not a clear date; not kept")
    else:
        entry.fields[key] = moment


def _take_end(entry: _Entry, key: str, value: Any) -> None:
    moment = read_time(value)
    if moment is None:
        raise _Refused(f"{key}: must be a date, because it limits when the memory holds")
    entry.fields[key] = moment


def _take_successor(entry: _Entry, key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int) or len(str(value)) > MAX_KEY_CHARS:
        raise _Refused(f"{key}: must be the id of a memory")
    entry.fields[key] = str(value)


def _take_importance(entry: _Entry, key: str, value: Any) -> None:
    number = None
    if not isinstance(value, bool) and isinstance(value, str | int | float):
        with suppress(ValueError, OverflowError):
            number = float(value)
    if number is None or not 0.0 <= number <= 1.0:
        entry.note(key, value, "not a number from 0 to 1; not kept")
    else:
        entry.fields[key] = number


def _take_names(entry: _Entry, key: str, value: Any) -> None:
    names = _names(value)
    kept = [name for name in names if isinstance(name, str) and 0 < len(name) <= MAX_KEY_CHARS]
    if len(kept) < len(names) or not names:
        entry.note(key, value, "not all are names; the others were not kept")
    entry.fields[key] = kept


def _take_category(entry: _Entry, key: str, value: Any) -> None:
    """Read a category as a type if it names one, else as a name."""
    kind = TYPE_NAMES.get(snake_case(str(value)))
    if kind is not None:
        entry.fields.setdefault("type", kind.value)
    elif isinstance(value, str) and len(value) <= MAX_KEY_CHARS:
        entry.fields["entities"] = list(dict.fromkeys([*entry.fields.get("entities", ()), value.strip()]))
        entry.note(key, value, "not a type; kept as a name")
    else:
        entry.note(key, value)


def _names(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [name.get("name") if isinstance(name, Mapping) else name for name in value]
    return split_names(value)


def _take_text(entry: _Entry, key: str, value: Any) -> None:
    if isinstance(value, str):
        entry.fields[key] = value
    else:
        entry.note(key, value)


def _take_channel(entry: _Entry, key: str, value: Any) -> None:
    """Read where it was said: without a user, it is told only there."""
    entry.fields[key] = _one_name(key, value)


def _take_id(entry: _Entry, key: str, value: Any) -> None:
    if isinstance(value, str | int) and not isinstance(value, bool) and len(str(value)) <= MAX_KEY_CHARS:
        entry.fields[key] = str(value)
    else:
        entry.note(key, value)


def _take_version(entry: _Entry, key: str, value: Any) -> None:
    number = str(value)
    if number.isascii() and number.isdecimal() and len(number) <= MAX_VERSION_DIGITS and int(number) > 0:
        entry.fields[key] = int(number)
    else:
        entry.note(key, value)


def _take_relations(entry: _Entry, key: str, value: Any) -> None:
    try:
        entry.fields[key] = [Relation.model_validate(relation) for relation in value]
    except (ValidationError, TypeError):
        entry.note(key, value, "not a list of kind and target; not kept")


def _take_cues(entry: _Entry, key: str, value: Any) -> None:
    """Read cues from a list, or from a text with a bar or a line end between them."""
    listed = re.split(r"[|\n]", value) if isinstance(value, str) else value
    try:
        entry.fields[key] = _CUES.validate_python(listed)
    except ValidationError:
        entry.note(key, value, "not a list of short messages; not kept")


def _take_evidence(entry: _Entry, key: str, value: Any) -> None:
    try:
        entry.fields[key] = Evidence.model_validate(value)
    except ValidationError:
        entry.note(key, value, "not the evidence of a captured memory; not kept")


def _take_pinned(entry: _Entry, key: str, value: Any) -> None:
    """Read whether the memory is pinned; the other words for it are those of spreadsheets."""
    word = str(value).strip().lower()
    if word in _YES or word in _NO:
        entry.fields[key] = word in _YES
    else:
        entry.note(key, value, "not true or false; not kept")


_READERS: dict[str, Callable[[_Entry, str, Any], None]] = {
    "type": _take_type,
    "created_at": _take_time,
    "occurred_at": _take_time,
    "valid_until": _take_end,
    "superseded_at": _take_end,
    "superseded_by": _take_successor,
    "category": _take_category,
    "importance": _take_importance,
    "entities": _take_names,
    "relations": _take_relations,
    "context": _take_text,
    "channel": _take_channel,
    "source": _take_text,
    "id": _take_id,
    "version": _take_version,
    "cues": _take_cues,
    "evidence": _take_evidence,
    "pinned": _take_pinned,
}
