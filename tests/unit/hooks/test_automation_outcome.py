"""Parsing and merging of automation output."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.automations import HookOutcome
from hooks.automations.outcome import DEEPEST, BadOutput, merged, parsed, read


def as_json(value: object) -> bytes:
    return json.dumps({"enrich": value}).encode()


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
def test_valid_output_is_read(brought: Any, enrichment: dict[str, Any], detail: str) -> None:
    assert read(brought) == (enrichment, detail)


@pytest.mark.parametrize("brought", [[], "text", 7, True, {"enrich": [1]}, {"enrich": "text"}])
def test_invalid_output_is_rejected(brought: Any) -> None:
    with pytest.raises(BadOutput):
        read(brought)


@pytest.mark.parametrize("output", [b"{", b"no", b"\xff", b"[" * 100_000, b'{"a":1} {"b":2}'])
def test_output_that_is_not_json_is_rejected(output: bytes) -> None:
    with pytest.raises(BadOutput):
        parsed(output)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"a": "x"}
    for _ in range(levels - 2):
        value = {"a": value}
    return value


def test_enrichments_that_are_too_deep_or_not_json_are_rejected() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    for enrich in (nested(DEEPEST + 1), nested(900), nested(100_000), endless, {("a", "b"): 1}):
        with pytest.raises(BadOutput):
            read({"enrich": enrich})
    assert read({"enrich": nested(DEEPEST)})[0] == nested(DEEPEST)
    assert merged([nested(DEEPEST), nested(DEEPEST)])["a"] is not None


def test_an_enrichment_is_a_copy() -> None:
    notes = ["one"]
    enrichment, _ = read({"enrich": {"notes": notes, "path": Path("/x"), 7: "seven"}})
    notes.append("two")
    assert enrichment == {"notes": ["one"], "path": "/x", "7": "seven"}


@given(st.binary(max_size=60) | st.recursive(st.none() | st.text(max_size=3), st.lists, max_leaves=5).map(as_json))
def test_any_output_raises_only_bad_output(output: bytes) -> None:
    try:
        enrichment, detail = read(parsed(output))
    except BadOutput:
        return
    assert isinstance(enrichment, dict)
    assert isinstance(detail, str)


def test_output_may_be_empty() -> None:
    assert parsed(b"") is parsed(b" \n") is None
    assert parsed(b'\n{"fire": false}\n') == {"fire": False}


def test_enrichments_are_merged_without_loss() -> None:
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
def test_merging_keeps_every_text(parts: list[dict[str, str]]) -> None:
    together = merged(parts)
    assert all(value in together[name] for part in parts for name, value in part.items())
    assert set(together) == {name for part in parts for name in part}


def test_the_block_precedes_the_message() -> None:
    assert HookOutcome("p", enrichment={"memory_context": "<block>"}).prefix("hi") == "<block>\n\nhi"
    for enrichment in ({}, {"memory_context": ""}, {"memory_context": 7}, {"memories": "x"}):
        assert HookOutcome("p", enrichment=enrichment).prefix("hi") == "hi"
