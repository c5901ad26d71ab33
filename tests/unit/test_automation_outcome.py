"""How what automations bring is read and put together."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.automations import HookOutcome
from hooks.automations.outcome import BadOutput, merged, parsed, read


@pytest.mark.parametrize(
    ("brought", "enrichment", "detail"),
    [
        (None, {}, ""),
        ({}, {}, ""),
        ({"fire": True}, {}, ""),
        ({"enrich": {"a": 1}}, {"a": 1}, ""),
        ({"fire": True, "blocking": True, "enrich": {"memories": None}}, {}, ""),
        ({"fire": False, "enrich": {"a": 1}}, {}, ""),
        ({"fire": False, "reason": "none_relevant"}, {}, "none_relevant"),
        ({"fire": "yes", "enrich": {"a": 1}}, {}, ""),
        ({"enrich": {"a": "\ud800"}}, {"a": "\ufffd"}, ""),
        ({"enrich": None}, {}, ""),
    ],
)
def test_what_is_brought_is_read(brought: Any, enrichment: dict[str, Any], detail: str) -> None:
    assert read(brought) == (enrichment, detail)


@pytest.mark.parametrize("brought", [[], "text", 7, True, {"enrich": [1]}, {"enrich": "text"}])
def test_anything_else_is_refused(brought: Any) -> None:
    with pytest.raises(BadOutput):
        read(brought)


@pytest.mark.parametrize("output", [b"{", b"no", b"\xff", b"[" * 100_000, b'{"a":1} {"b":2}'])
def test_output_that_is_no_json_is_refused(output: bytes) -> None:
    with pytest.raises(BadOutput):
        parsed(output)


def test_output_may_be_nothing() -> None:
    assert parsed(b"") is parsed(b" \n") is None
    assert parsed(b'\n{"fire": false}\n') == {"fire": False}


def test_enrichments_are_put_together_and_nothing_is_lost() -> None:
    first = {"memory_context": "<a>", "notes": ["1"], "tags": {"x": "1", "y": ["2"]}, "level": 1, "only": "here"}
    second = {"memory_context": "<b>", "notes": ["2"], "tags": {"x": "3", "y": ["4"]}, "level": 2, "empty": ""}
    assert merged([first, {}, second]) == {
        "memory_context": "<a>\n\n<b>",
        "notes": ["1", "2"],
        "tags": {"x": "1\n\n3", "y": ["2", "4"]},
        "level": 2,
        "only": "here",
        "empty": "",
    }
    assert first["notes"] == ["1"]


texts = st.dictionaries(st.sampled_from("abc"), st.text(min_size=1, max_size=5), max_size=3)


@given(st.lists(texts, max_size=5))
def test_every_text_of_every_part_is_in_the_whole(parts: list[dict[str, str]]) -> None:
    together = merged(parts)
    assert all(value in together[name] for part in parts for name, value in part.items())
    assert set(together) == {name for part in parts for name in part}


def test_the_block_stands_in_front_of_the_message() -> None:
    assert HookOutcome("p", enrichment={"memory_context": "<block>"}).prefix("hi") == "<block>\n\nhi"
    for enrichment in ({}, {"memory_context": ""}, {"memory_context": 7}, {"memories": "x"}):
        assert HookOutcome("p", enrichment=enrichment).prefix("hi") == "hi"
