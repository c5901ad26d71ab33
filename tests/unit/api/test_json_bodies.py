"""Request bodies are strict JSON, and errors do not repeat them."""

import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.http import Recorder, calling, make_app
from worker.api.json_bodies import DEEPEST, JsonAnswer, is_json, read_json
from worker.api.problems import Problem

JSON = {"Content-Type": "application/json"}
NOTHING = {"outcome": "none_relevant", "reason": "nothing_recalled"}


async def post(content: bytes, path: str = "/v1/inject", **headers: str) -> httpx.Response:
    async with calling(make_app(Recorder({"inject": NOTHING, "recall": {"memories": []}}))) as client:
        return await client.post(path, content=content, headers={**JSON, **headers})


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "body: is required"),
        (b"{", "not JSON: "),
        (b"{} {}", "not JSON: Extra data"),
        (b'{"message": "\xff"}', "UTF-8"),
        (b'{"session_id": NaN}', "NaN is not JSON"),
        (b'{"session_id": -Infinity}', "-Infinity is not JSON"),
        (b'{"session_id": 1e999}', "a number is too large"),
        (b'{"session_id": ' + b"9" * 5000 + b"}", "too many digits"),
        (b"[" * 200_000, f"more than {DEEPEST} levels"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, f"more than {DEEPEST} levels"),
        (b"[]", "body: must be a table"),
        (b'"words of somebody"', "body: must be a table"),
        (b"null", "body: "),
    ],
)
async def test_invalid_bodies_are_refused_with_a_reason(content: bytes, word: str) -> None:
    answer = await post(content)
    assert answer.status_code in {400, 422}
    assert answer.headers["content-type"] == "application/problem+json"
    assert word in answer.json()["detail"]
    assert "words of somebody" not in answer.text


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json", ""])
async def test_other_content_types_are_refused(kind: str) -> None:
    answer = await post(b"{}", **{"Content-Type": kind})
    assert answer.status_code == 415
    assert "application/json" in answer.json()["detail"]


async def test_a_body_without_a_type_is_refused() -> None:
    async with calling(make_app(Recorder({"inject": NOTHING}))) as client:
        assert (await client.post("/v1/inject", content=b"{}")).status_code == 415


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/problem+json"])
def test_json_content_types_are_accepted(kind: str) -> None:
    assert is_json(kind)
    assert not is_json("text/json+x")
    assert not is_json(None)


async def test_every_fault_is_reported_without_the_input() -> None:
    secret = "words of somebody"
    body = {"session_id": "s", "message": {"text": secret}, "deadline_ms": secret, "scope": {"tenant": ""}}
    answer = await post(json.dumps(body).encode())
    document = answer.json()
    assert answer.status_code == 422
    assert document["reason"] == "bad_request"
    assert [fault["at"] for fault in document["errors"]] == [
        ["body", "message"],
        ["body", "scope", "tenant"],
        ["body", "deadline_ms"],
    ]
    assert secret not in answer.text


async def test_unknown_fields_are_named() -> None:
    answer = await post(json.dumps({"query": "q", "n" * 500: 1}).encode(), "/v1/recall")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["at"] == ["body", "n" * 80]
    assert (await post(json.dumps({"query": "q", "\ud800": 1}).encode(), "/v1/recall")).status_code == 422


async def test_lone_surrogates_are_replaced() -> None:
    seen = Recorder({"inject": lambda payload: {**NOTHING, "turn_id": payload["message"]}})
    async with calling(make_app(seen)) as client:
        content = b'{"session_id": "s\\u0000", "message": "\\ud800 and \\udfff"}'
        answer = await client.post("/v1/inject", content=content, headers=JSON)
    assert answer.json()["turn_id"] == "\ufffd and \ufffd"
    assert seen.asked[0][1]["session_id"] == "s\x00"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_any_json_value_is_read_unchanged(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    refused: Problem | None = None
    try:
        read_json(raw)
    except Problem as problem:
        refused = problem
    assert refused is None or (refused.status_code == 400 and bytes(refused.response.body).isascii())


@pytest.mark.parametrize("levels", [DEEPEST, DEEPEST + 1])
def test_nesting_is_counted_exactly(levels: int) -> None:
    raw = (b'[{"a":' * levels)[: 6 * (levels // 2)] + b"[" * (levels % 2) + b"1" + b"]" * (levels % 2)
    raw += b"}]" * (levels // 2)
    if levels <= DEEPEST:
        assert read_json(raw)
    else:
        with pytest.raises(Problem, match="levels deep"):
            read_json(raw)


@given(st.text())
def test_answers_are_ascii(text: str) -> None:
    body = bytes(JsonAnswer({"text": text}).body)
    assert body.isascii()
    assert json.loads(body) == {"text": text}
