"""Requests from anywhere: null and empty optional fields, and histories of any size."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from hooks.contract import InjectionRequest, Scope, SessionEvent
from hooks.protocol.size import MOST_BYTES, bounded, clipped

OPTIONAL = [name for name in InjectionRequest.model_fields if name not in ("session_id", "message")]
GIVEN = {"session_id": "s", "message": "Where is the kiln?", "turn_id": "t"}


@pytest.mark.parametrize("name", OPTIONAL)
@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_optional_field_counts_as_unset(name: str, empty: Any) -> None:
    given = InjectionRequest.model_validate({**GIVEN, name: empty})
    without = {key: value for key, value in GIVEN.items() if key != name}
    expected = InjectionRequest.model_validate(without)
    if name != "turn_id" and (name, empty) != ("source", ""):
        assert given == expected
    assert given.turn_id


def test_empty_parts_of_a_scope_count_as_unset_but_an_empty_tenant_does_not() -> None:
    scope = {"tenant": None, "user": "", "agent": None, "project": "", "channel": ""}
    assert InjectionRequest.model_validate({**GIVEN, "scope": scope}) == InjectionRequest.model_validate(GIVEN)
    with pytest.raises(ValidationError):
        InjectionRequest.model_validate({**GIVEN, "scope": {"tenant": ""}})


@pytest.mark.parametrize(
    "name", [" ", "\t\n", "\u200b", "\u00ad \ufeff", "\u034f\u200d", "\x00", "\U000e0041", "\u3164", "\u2800 \uffa0"]
)
def test_a_name_of_nothing_to_see_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="must not be blank"):
        Scope(user=name)


@pytest.mark.parametrize("name", ["oscar", "\u0645\u06cc\u200c\u062e", "e\u0301", "\U0001f600", "7", "-"])
def test_other_names_are_taken(name: str) -> None:
    assert Scope(user=f" {name}\n").user == name


def test_empty_fields_of_an_event_count_as_unset() -> None:
    given = {"type": "session.cleared", "session_id": "s", "agent_id": "", "turn_id": None, "deadline_ms": None}
    assert SessionEvent.model_validate(given) == SessionEvent.model_validate(
        {"type": "session.cleared", "session_id": "s"}
    )


def test_a_long_history_is_cut_to_its_latest_messages() -> None:
    turns = [{"role": "user", "content": f"{number} " + "x" * 50_000} for number in range(400)]
    request = InjectionRequest.model_validate({**GIVEN, "recent_messages": turns, "message": "a" * 9_000_000 + "why?"})
    assert len(request.model_dump_json()) < 150_000
    assert request.message.endswith("why?")
    assert [one.content.split()[0] for one in request.recent_messages] == [str(number) for number in range(380, 400)]


@pytest.mark.parametrize(
    "value",
    [
        {**GIVEN, "recent_messages": [{"role": "user", "content": "x" * 50_000}] * 400},
        {"prompt": "x" * 20_000_000, "session_id": "s", "cwd": "/srv/app"},
        {"session_id": "s", "prompt": "x", "more": [[["y" * 1_000] * 100] * 100] * 2},
        {"session_id": "s", "prompt": "x", "tool_input": {f"k{number}": "z" * 2_000 for number in range(5_000)}},
    ],
    ids=["history", "prompt", "nested", "wide"],
)
def test_large_objects_are_shortened(value: dict[str, Any]) -> None:
    data = bounded(json.dumps(value).encode())
    assert len(data) < 2 * MOST_BYTES
    assert json.loads(data)["session_id"] == "s"


@pytest.mark.parametrize("data", [b'{"a":1}', b"x" * 400_000, b"[" * 300_000])
def test_short_and_broken_objects_stay_as_they_are(data: bytes) -> None:
    assert bounded(data) == data


@pytest.mark.parametrize(
    "grapheme",
    ["e\u0301", "\U0001f469\u200d\U0001f692", "\U0001f44d\U0001f3fd", "\U0001f1e8\U0001f1ed", "\u1100\u1161\u11a8"],
)
def test_a_long_text_is_cut_between_graphemes(grapheme: str) -> None:
    for shift in range(len(grapheme)):
        cut = clipped("x" * shift + grapheme * 200, 100, 101)
        head, _, tail = cut.partition("\n")
        assert len(cut) <= 202
        assert head.lstrip("x").replace(grapheme, "") == "", shift
        assert tail.replace(grapheme, "") == "", shift
