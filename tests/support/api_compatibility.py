"""What a change of the API's description breaks for callers who were written for the one before. Pure.

What callers send may only be taken more widely, what they receive may only grow: fields, and values of enumerations,
which callers are told to expect. Covers the part of OpenAPI 3.1 that this service's description uses.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

Document = Mapping[str, Any]
Schema = Mapping[str, Any]

METHODS = ("get", "put", "post", "patch", "delete")
LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
EXACT = ("pattern", "format", "const")


def breaking_changes(old: Document, new: Document) -> list[str]:
    """One line for every change from `old` to `new` that a caller of `old` may stumble over."""
    return list(dict.fromkeys(_paths(old, new)))


def _paths(old: Document, new: Document) -> Iterator[str]:
    for path, operations in old["paths"].items():
        for method in METHODS:
            if method not in operations:
                continue
            where = f"{method.upper()} {path}"
            after = new["paths"].get(path, {}).get(method)
            if after is None:
                yield f"{where}: gone"
            else:
                yield from _operation(_Place(old, new, where), operations[method], after)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in both documents; `sent` is whether callers send it, else they receive it."""

    old: Document
    new: Document
    where: str
    sent: bool = True
    seen: frozenset[tuple[str, str]] = frozenset()

    def at(self, step: str) -> "_Place":
        return replace(self, where=f"{self.where}{step}")


def _operation(place: _Place, old: Document, new: Document) -> Iterator[str]:
    if new.get("security") and not old.get("security"):
        yield f"{place.where}: needs a token now"
    yield from _parameters(place, old.get("parameters", []), new.get("parameters", []))
    yield from _body(place.at(" body"), old.get("requestBody"), new.get("requestBody"))
    for status, answer in old.get("responses", {}).items():
        if not status.startswith("2"):
            continue
        after = new.get("responses", {}).get(status)
        there = replace(place.at(f" {status}"), sent=False)
        if after is None:
            yield f"{there.where}: gone"
        else:
            yield from _content(there, answer.get("content", {}), after.get("content", {}))


def _parameters(place: _Place, old: list[Document], new: list[Document]) -> Iterator[str]:
    before = {(one["in"], one["name"]): one for one in old}
    after = {(one["in"], one["name"]): one for one in new}
    for key, parameter in after.items():
        if parameter.get("required") and not before.get(key, {}).get("required"):
            yield f"{place.where} {key[0]} {key[1]}: required now"
    for key, parameter in before.items():
        there = place.at(f" {key[0]} {key[1]}")
        if key not in after:
            yield f"{there.where}: gone"
        else:
            yield from _schema(there, parameter.get("schema", {}), after[key].get("schema", {}))


def _body(place: _Place, old: Document | None, new: Document | None) -> Iterator[str]:
    if new and new.get("required") and not (old and old.get("required")):
        yield f"{place.where}: required now"
    if old:
        yield from _content(place, old.get("content", {}), new.get("content", {}) if new else {})


def _content(place: _Place, old: Document, new: Document) -> Iterator[str]:
    for kind, media in old.items():
        if kind not in new:
            yield f"{place.where} {kind}: gone"
        else:
            yield from _schema(place, media.get("schema", {}), new[kind].get("schema", {}))


def _schema(place: _Place, old: Schema, new: Schema) -> Iterator[str]:
    key = (old.get("$ref", ""), new.get("$ref", ""))
    if all(key):
        if key in place.seen:
            return
        place = replace(place, seen=place.seen | {key})
    before, after = _alternatives(place.old, old), _alternatives(place.new, new)
    if len(before) == len(after) == 1:
        yield from _single(place, before[0], after[0])
        return
    given, takers = (before, after) if place.sent else (after, before)
    for one in given:
        pairs = [(one, taker) if place.sent else (taker, one) for taker in takers]
        if not any(not list(_single(place, *pair)) for pair in pairs):
            yield f"{place.where}: {_kind(one)} is {'refused now' if place.sent else 'new'}"


def _alternatives(document: Document, schema: Schema) -> list[Schema]:
    """The schemas of which one holds, references followed."""
    schema = _resolved(document, schema)
    if "anyOf" in schema:
        return [one for part in schema["anyOf"] for one in _alternatives(document, part)]
    kinds = schema.get("type")
    return [{**schema, "type": kind} for kind in kinds] if isinstance(kinds, list) else [schema]


def _resolved(document: Document, schema: Schema) -> Schema:
    while "$ref" in schema:
        found: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        schema = found
    return schema


def _kind(schema: Schema) -> str:
    return str(schema.get("type", schema.get("const", "anything")))


def _single(place: _Place, old: Schema, new: Schema) -> Iterator[str]:
    if not _kinds_fit(old.get("type"), new.get("type"), sent=place.sent):
        yield f"{place.where}: {_kind(old)} is {_kind(new)} now"
        return
    if place.sent:
        yield from _limits(place, old, new)
    yield from _objects(place, old, new)
    if "items" in old or "items" in new:
        yield from _schema(place.at("[]"), old.get("items", {}), new.get("items", {}))


def _kinds_fit(old: str | None, new: str | None, *, sent: bool) -> bool:
    narrow, wide = (old, new) if sent else (new, old)
    return narrow == wide or wide is None or (narrow, wide) == ("integer", "number")


def _limits(place: _Place, old: Schema, new: Schema) -> Iterator[str]:
    """What is refused now and was taken before."""
    for names, sign in ((LEAST, 1), (MOST, -1)):
        for name in names:
            if name in new and (name not in old or sign * new[name] > sign * old[name]):
                yield f"{place.where}: {name} is {new[name]} now"
    for name in EXACT:
        if name in new and new[name] != old.get(name):
            yield f"{place.where}: {name} is {new[name]} now"
    if "enum" in new and (missing := [value for value in old.get("enum", ["others"]) if value not in new["enum"]]):
        yield f"{place.where}: {', '.join(map(str, missing))} refused now"


def _objects(place: _Place, old: Schema, new: Schema) -> Iterator[str]:
    before, after = old.get("properties", {}), new.get("properties", {})
    for name, schema in before.items():
        if name in after:
            yield from _schema(place.at(f".{name}"), schema, after[name])
        else:
            yield f"{place.where}.{name}: gone"
    was, now = set(old.get("required", ())), set(new.get("required", ()))
    for name in sorted(now - was if place.sent else was - now):
        yield f"{place.where}.{name}: {'required now' if place.sent else 'may be missing now'}"
    yield from _others(place, old.get("additionalProperties", True), new.get("additionalProperties", True))


def _others(place: _Place, old: Schema | bool, new: Schema | bool) -> Iterator[str]:
    """Properties that have no name in the schema."""
    if place.sent and new is False and old is not False:
        yield f"{place.where}: unknown names are refused now"
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _schema(place.at(".*"), old, new)
