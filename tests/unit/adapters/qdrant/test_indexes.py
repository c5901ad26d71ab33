"""Which conditions are left of a filter, by the keys that the memories of a store set."""

from dataclasses import fields

import pytest

from tests.support.store import memory
from worker.adapters.qdrant.edge.indexes import KEYS, NOTHING, simplified
from worker.adapters.qdrant.filters import AnyOf, Condition, Either, Equals, HasId, InRange, conditions
from worker.adapters.qdrant.payload import FAR_FUTURE, UNSET, payload_of
from worker.domain.memory import Memory, MemoryFilter, Visibility

ALL_SET = {"tenant", "created_ts", "importance"}
TENANT = Equals("tenant", "north")


def test_values_of_unset_keys_are_those_of_a_memory_that_sets_nothing() -> None:
    payload = payload_of("north", Memory(id="m1", content="The bell hangs on the larch beam"))
    assert {key: tuple(value) if isinstance(value, list) else (value,) for key, value in payload.items()} == {
        **UNSET,
        **{key: (payload[key],) for key in (*ALL_SET, "memory")},
    }
    assert UNSET.keys() | ALL_SET == KEYS


@pytest.mark.parametrize(
    "met",
    [
        AnyOf("user", ("", "mia")),
        Equals("project", ""),
        Equals("pinned", "yes", negated=True),
        InRange("valid_until_ts", gt=5),
        InRange("superseded_ts", gte=FAR_FUTURE, lte=FAR_FUTURE),
        Either((AnyOf("channel", ("", "c1")), Equals("user", "", negated=True))),
        Either((Equals("user", "mia"), Equals("tenant", "north"), Equals("agent", ""))),
    ],
)
def test_what_every_memory_meets_is_left_out(met: Condition) -> None:
    assert simplified((TENANT, met), ALL_SET) == (TENANT,)


@pytest.mark.parametrize(
    "unmet",
    [
        AnyOf("user", ("mia", "ben")),
        Equals("user", "", negated=True),
        AnyOf("names", ("mia",)),
        InRange("times", gte=0),
        InRange("valid_until_ts", gt=FAR_FUTURE),
        InRange("superseded_ts", lte=5),
        InRange("superseded_ts", gte=FAR_FUTURE + 1),
        Either((Equals("channel", "c1"), Equals("user", "", negated=True))),
    ],
)
def test_what_no_memory_meets_finds_none(unmet: Condition) -> None:
    assert simplified((TENANT, unmet), ALL_SET) == NOTHING


def test_what_memories_differ_in_is_asked_of_each() -> None:
    wanted = (TENANT, AnyOf("user", ("", "mia")), InRange("importance", gte=0.5), HasId(("p1",), negated=True))
    assert simplified(wanted, ALL_SET | {"user"}) == wanted
    either = Either((Equals("user", "mia"), Equals("channel", "c1")))
    assert simplified((either,), ALL_SET | {"user"}) == (Either((Equals("user", "mia"),)),)


def test_an_empty_store_has_no_memory_of_any_tenant() -> None:
    everything = MemoryFilter(visibility=Visibility(), importance=0.0)
    assert simplified(conditions("north", None), set()) == NOTHING
    assert simplified(conditions("north", everything), set()) == NOTHING


def test_a_store_that_sets_every_key_is_asked_everything() -> None:
    now = memory("m1").created_at
    given = Visibility(("mia",), ("a1",), ("p1",), ("c1",), now, now, importance=0.1)
    wanted = conditions("north", MemoryFilter(given, names=("mia",), channels=("c1",), pinned=True, since=now))
    assert len(wanted) > len(fields(given))
    assert simplified(wanted, KEYS) == wanted
