"""Who may be told that a memory is outdated: everybody who sees it must see what replaced it."""

from typing import Any

import pytest

from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory
from worker.store.superseding import check_scopes, in_room, superseded

OSCAR, HANA = {"user": "oscar"}, {"user": "hana"}


def memory(key: str, **fields: Any) -> Memory:
    return Memory.model_validate({"id": key, "content": "The gate is green", **fields})


@pytest.mark.parametrize(
    ("new", "old", "allowed"),
    [
        ({}, {}, True),
        (OSCAR, OSCAR, True),
        ({}, OSCAR, True),
        (OSCAR, {}, False),
        (OSCAR, HANA, False),
        ({"project": "a"}, {"project": "a", "user": "oscar"}, True),
        ({"project": "a", "user": "oscar"}, OSCAR, False),
        ({"agent": "a"}, {"agent": "b"}, False),
    ],
)
def test_a_memory_outdates_only_what_nobody_else_sees(new: dict[str, str], old: dict[str, str], allowed: bool) -> None:
    target = memory("old", scope=old)
    successor = memory("new", scope=new, relations=[{"kind": "supersedes", "target": "old"}])
    assert superseded(target, [successor]).superseded_by == ("new" if allowed else None)
    marked = target.model_copy(update={"superseded_by": "new"})
    for changed, other in ((successor, target), (marked, successor)):
        if allowed:
            check_scopes(changed, [other])
        else:
            with pytest.raises(MemoryRejected, match="'new' cannot supersede it; give both the same scope"):
                check_scopes(changed, [other])


def test_other_relations_and_unrelated_memories_are_free() -> None:
    about = memory("new", scope=OSCAR, relations=[{"kind": "about", "target": "old"}])
    others = [memory("old"), memory("elsewhere", scope=HANA)]
    check_scopes(about, others)
    assert [superseded(other, [about]).superseded_by for other in others] == [None, None]


@pytest.mark.parametrize(
    ("new", "old", "channel"),
    [
        ({}, [{"channel": "board"}], "board"),
        ({}, [{"channel": "board"}, {"channel": "board"}], "board"),
        ({"channel": "all-hands"}, [{"channel": "board"}], "all-hands"),
        ({"channel": None}, [{"channel": "board"}], None),
        ({"scope": OSCAR}, [{"channel": "board"}], None),
        ({}, [{"channel": "board", "scope": OSCAR}], None),
        ({}, [{}], None),
        ({}, [], None),
    ],
)
def test_what_replaces_something_said_in_a_channel_stays_there(
    new: dict[str, Any], old: list[dict[str, Any]], channel: str | None
) -> None:
    assert in_room(memory("new", **new), [memory("old", **one) for one in old]).channel == channel


def test_a_channel_has_to_be_named_if_there_are_several() -> None:
    with pytest.raises(MemoryRejected, match="different channels; name the one"):
        in_room(memory("new"), [memory("one", channel="board"), memory("two")])
