"""Indexes of the embedded store: only on keys that one of its memories has set.

An index takes megabytes of disk and of every opening, and a condition takes time at every point. As long as no memory
sets a key, such as the project, a condition on it has the same answer for all memories.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, assert_never

import qdrant_edge as edge

from worker.adapters.qdrant.filters import AnyOf, Condition, Either, Equals, HasId, InRange
from worker.adapters.qdrant.payload import FRACTION_KEYS, KEYWORD_KEYS, NUMBER_KEYS, TENANT, UNSET, Value

KEYS = frozenset((*KEYWORD_KEYS, *NUMBER_KEYS, *FRACTION_KEYS))

LARGE = 2_000
"""Memories from which each write indexes one more key, since indexing one stops the store for some 20 us a memory."""

NOTHING: tuple[Condition, ...] = (HasId(()),)
"""The condition that no memory meets."""


class Indexes:
    """The indexes of an open store. Methods raise the engine's errors."""

    def __init__(self, points: edge.EdgeShard, expected: Collection[str] | None) -> None:
        """Make the expected indexes that the engine lacks; `None` stands for all, as earlier versions made them."""
        self._points = points
        self.keys = frozenset(points.info().payload_schema)
        self.add(KEYS if expected is None else KEYS.intersection(expected))

    def add(self, keys: Collection[str]) -> None:
        for key in sorted(set(keys) - self.keys):
            self._points.update(edge.UpdateOperation.create_field_index(key, _parameters(key)))
        self.keys = self.keys.union(keys)

    def due(self, payloads: Iterable[Mapping[str, Any]]) -> frozenset[str]:
        """Return the keys without an index that one of these payloads sets, and of a large store one of the others."""
        missing = KEYS - self.keys
        first_set = {key for payload in payloads for key in missing if _values(payload[key]) != UNSET.get(key)}
        others = missing - first_set
        if others and self._points.info().points_count >= LARGE:
            first_set.add(min(others))
        return frozenset(first_set)


def simplified(wanted: Iterable[Condition], indexed: Collection[str]) -> tuple[Condition, ...]:
    """Leave out conditions that every memory meets; return `NOTHING` if there is one that no memory meets."""
    rests = [_rest(condition, indexed) for condition in wanted]
    return NOTHING if False in rests else tuple(rest for rest in rests if not isinstance(rest, bool))


def _parameters(key: str) -> Any:
    if key in KEYWORD_KEYS:
        return edge.KeywordIndexParams(is_tenant=key == TENANT, enable_hnsw=key == TENANT)
    if key in NUMBER_KEYS:
        return edge.IntegerIndexParams(lookup=False, range=True, enable_hnsw=False)
    return edge.FloatIndexParams(enable_hnsw=False)


def _values(stored: Any) -> tuple[Value, ...]:
    return tuple(stored) if isinstance(stored, list) else (stored,)


def _rest(condition: Condition, indexed: Collection[str]) -> Condition | bool:
    """Return what is left to ask of each memory, or the answer if it is the same for all."""
    if isinstance(condition, HasId):
        return condition
    if isinstance(condition, Either):
        rests = [_rest(option, indexed) for option in condition.options]
        left = tuple(rest for rest in rests if not isinstance(rest, bool))
        return True in rests or (Either(left) if left else False)
    if condition.key in indexed:
        return condition
    values = UNSET.get(condition.key)
    return values is not None and _met(condition, values)  # without a value for unset keys: the store is empty


def _met(condition: Equals | AnyOf | InRange, values: tuple[Value, ...]) -> bool:
    match condition:
        case Equals(_, value, negated):
            return (value in values) != negated
        case AnyOf(_, allowed):
            return not set(allowed).isdisjoint(values)
        case InRange():
            return any(_within(condition, float(value)) for value in values)
        case _:
            assert_never(condition)


def _within(bounds: InRange, value: float) -> bool:
    above = (bounds.gt is None or value > bounds.gt) and (bounds.gte is None or value >= bounds.gte)
    return above and (bounds.lte is None or value <= bounds.lte)
