"""Dumps of other memory systems: what they call an entry, as plain fields.

Read are mem0 (also from its vector store), Letta's blocks, LangGraph stores, the graph of the MCP server "memory", and
Hindsight, whose names are among the usual ones.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .entries import LeftOut, Rejected, Remark, split_names

Raw = dict[str, Any]

_GENERAL = frozenset(
    {"memory", "memories", "store", "default", "user", "users", "facts", "profile", "profiles", "semantic", "episodic"}
    | {"procedural", "collection", "data", "shared", "global", "public"}
)
"""Words in a namespace that say nothing about whose memories they are."""


def unpacked(raw: Mapping[str, Any]) -> Iterator[Raw | Remark]:
    """Yield the entries that one object of a dump stands for; the lines of remarks are 0."""
    kind = raw.get("type", raw.get("_type"))
    if isinstance(raw.get("observations"), list) and isinstance(raw.get("name"), str):
        yield from _observations(raw)
    elif isinstance(raw.get("relationType"), str) or (kind == "relation" and "from" in raw):
        yield _relation(raw)
    elif {"namespace", "key", "value"} <= raw.keys():
        yield _stored(raw)
    elif isinstance(raw.get("label"), str) and isinstance(raw.get("value"), str):
        yield _block(raw)
    elif isinstance(raw.get("payload"), dict) and "content" not in raw:
        yield {**{key: value for key, value in raw.items() if key not in ("payload", "vector")}, **raw["payload"]}
    elif isinstance(raw.get("memory"), str) and not {"content", "text"} & raw.keys():
        yield {"source": "mem0", **raw}
    else:
        yield dict(raw)


def _observations(raw: Mapping[str, Any]) -> Iterator[Raw | Remark]:
    """Yield a memory for each observation of an entity in a knowledge graph."""
    name = " ".join(raw["name"].split())
    kind = raw.get("entityType")
    if not raw["observations"]:
        yield LeftOut(0, "an entity without observations")
    for observation in raw["observations"]:
        values = observation if isinstance(observation, dict) else {"text": observation}
        text = next((values[key] for key in ("text", "content") if isinstance(values.get(key), str)), "")
        if not text.strip():
            yield Rejected(0, f"{name}: an observation without text")
            continue
        said = text if name.lower() in text.lower() else f"{name}: {text}"
        more = {"context": kind} if isinstance(kind, str) and kind.strip() else {}
        rest = {key: value for key, value in values.items() if key not in ("text", "content")}
        yield {**rest, **more, "content": said, "entities": [name], "source": "mcp-memory"}


def _relation(raw: Mapping[str, Any]) -> Raw | Remark:
    ends = [raw.get("from"), raw.get("to")]
    if not all(isinstance(end, str) and end.strip() for end in ends):
        return Rejected(0, "a relation without both of its ends")
    words = str(raw.get("relationType", "is related to")).replace("_", " ")
    return {"content": f"{ends[0]} {words} {ends[1]}", "entities": ends, "source": "mcp-memory"}


def _stored(raw: Mapping[str, Any]) -> Raw | Remark:
    """Read an item of a LangGraph store. Its namespace says whose it is."""
    namespace = raw["namespace"]
    parts = namespace if isinstance(namespace, list) else str(namespace).split(".")
    owners = [part for part in map(str, parts) if part.strip().lower() not in _GENERAL]
    if len(owners) > 1:
        return Rejected(0, f"namespace {'/'.join(map(str, parts))}: it is unclear which part is the user")
    rest = {key: value for key, value in raw.items() if key not in ("namespace", "key", "value")}
    value = raw["value"] if isinstance(raw["value"], dict) else {"content": raw["value"]}
    owner = {"user": owners[0]} if owners else {}
    return {**rest, **_valued(value), **owner, "source": "langgraph"}


def _valued(value: Mapping[str, Any]) -> Raw:
    """Return a stored value with its text: under a usual name, or as "name: value" pairs."""
    inner = value.get("content")
    if isinstance(inner, dict):
        return _valued(inner)
    if any(isinstance(value.get(key), str) for key in ("content", "text", "memory", "data", "fact")):
        return dict(value)
    pairs = [f"{key.replace('_', ' ')}: {said}" for key, said in value.items() if isinstance(said, str | int | float)]
    return {"content": "\n".join(pairs)}


def _block(raw: Mapping[str, Any]) -> Raw:
    """Read a memory block of Letta. Its other fields describe how an agent edits it."""
    owner = {"agent": raw["agent"]} if "agent" in raw else {}
    tags = split_names(raw.get("tags"))
    return {"content": raw["value"].strip(), "context": raw["label"], "source": "letta", "entities": tags, **owner}
