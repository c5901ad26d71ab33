"""The stand-alone command scans input, URLs and answers without a JSON parser."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.protocol import wire
from hooks.protocol.resp import Address, unquote
from hooks.shim import ShimError, first_object, split_answer

WORDS = st.text(max_size=8) | st.sampled_from(['"', "\\", '\\"', "{", "]}", ',"ok":', "deadline_ms"])
JSON_VALUES = st.one_of(st.integers(), WORDS, st.lists(WORDS, max_size=3), st.dictionaries(WORDS, WORDS, max_size=3))
OBJECTS = st.dictionaries(WORDS, JSON_VALUES, max_size=4)


@given(OBJECTS, st.sampled_from([b"", b"\n", b'\n{"next":1}', b" ]}"]))
def test_the_first_object_is_found_whatever_follows(value: dict[str, object], rest: bytes) -> None:
    raw = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    found = first_object(b"\xef\xbb\xbf \r\n" + raw + rest)
    assert found is not None
    assert found.raw == raw


@given(OBJECTS, st.data())
def test_an_incomplete_object_is_not_returned(value: dict[str, object], data: st.DataObject) -> None:
    raw = json.dumps(value).encode()
    assert first_object(raw[: data.draw(st.integers(0, len(raw) - 1))]) is None


@pytest.mark.parametrize("data", [b"[1]", b"x", b'"{}"', b"7"])
def test_other_input_is_rejected(data: bytes) -> None:
    with pytest.raises(ShimError):
        first_object(data)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"deadline_ms":1200}', 1200),
        (b'{"a":1,"deadline_ms" : 1200 , "b":2}', 1200),
        (b'{"a":{"deadline_ms":5},"b":1}', None),
        (b'{"a":"\\"deadline_ms\\":7"}', None),
        (b'{"deadline_ms":"soon"}', None),
        (b'{"deadline_ms":1e3}', None),
        (b'{"deadline_ms":99999999999}', None),
    ],
)
def test_the_deadline_is_read_at_the_top_level_only(raw: bytes, expected: int | None) -> None:
    found = first_object(raw)
    assert found is not None
    assert found.deadline_ms == expected


@pytest.mark.parametrize(
    "folder", ["/home/ada/shop", "C:\\Users\\ada", '/caf\u00e9 \U0001f600/"x"', "", "/" + "x" * 20_000]
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_folder_is_read_at_the_top_level(folder: str, ascii_only: bool) -> None:
    event = {"tool": {"cwd": "/elsewhere"}, "cwd": folder, "prompt": '"cwd": "/no"'}
    found = first_object(json.dumps(event, ensure_ascii=ascii_only).encode())
    assert found is not None
    assert found.cwd == (folder if len(folder) < 16_000 else "")


@pytest.mark.parametrize(
    "raw", [b'{"cwd":null}', b'{"cwd":7,"x":"y"}', b'{"a":"cwd"}', b'{"cwd":["/x"]}', b'{"cwd":"\\q"}']
)
def test_what_is_no_folder_is_ignored(raw: bytes) -> None:
    found = first_object(raw)
    assert found is not None
    assert found.cwd == ""


@pytest.mark.parametrize(
    ("url", "endpoint", "handshake"),
    [
        ("unix:///a/valkey.sock", "/a/valkey.sock", []),
        ("unix:///a%20b/v.sock?db=2", "/a b/v.sock", [("SELECT", 2)]),
        ("unix://u:p@/a.sock", "/a.sock", [("AUTH", "u", "p")]),
        ("redis://host", ("host", 6379), []),
        ("redis://:p%40ss@host:7000/3", ("host", 7000), [("AUTH", "default", "p@ss"), ("SELECT", 3)]),
        ("redis://[::1]:6380?db=1", ("::1", 6380), [("SELECT", 1)]),
        ("redis://", ("localhost", 6379), []),
    ],
)
def test_addresses(url: str, endpoint: object, handshake: list[object]) -> None:
    address = Address.parse(url)
    assert address.endpoint == endpoint
    assert address.handshake() == handshake


@pytest.mark.parametrize("url", ["rediss://host", "http://host", "host:6379", "", "redis://host:port"])
def test_unsupported_addresses_are_rejected(url: str) -> None:
    with pytest.raises(ValueError, match=r"only redis:// and unix://|invalid literal"):
        Address.parse(url)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: "\0" not in text))
def test_any_path_survives_a_url(name: str) -> None:
    assert unquote(wire.unix_url("/" + name)) == "unix:///" + name


def test_the_default_address_is_the_socket_in_the_data_folder() -> None:
    assert wire.default_redis_url({"MEESEEKS_REDIS_URL": "redis://r", "MEESEEKS_DATA_DIR": "/d"}) == "redis://r"
    assert wire.default_redis_url({"MEESEEKS_DATA_DIR": "/d"}) == "unix:///d/valkey.sock"
    assert wire.default_redis_url({"XDG_DATA_HOME": "/x"}) == "unix:///x/meeseeks/valkey.sock"


def test_a_long_data_folder_gets_a_short_socket_path() -> None:
    first, second = (wire.socket_path("/" + letter * 120) for letter in "ab")
    assert first != second
    assert len(first) <= 100


@given(st.none() | st.tuples(WORDS, WORDS), OBJECTS)
def test_answers_are_split_without_parsing(commit: tuple[str, str] | None, body: dict[str, object]) -> None:
    answer = json.dumps({"commit": commit, "ok": body}, separators=(",", ":")).encode()
    found_commit, found_body = split_answer(answer)
    assert json.loads(found_commit) == (list(commit) if commit else None)
    assert json.loads(found_body) == body


@pytest.mark.parametrize("answer", [b"", b'{"error":{"reason":"internal","message":"x"}}', b'{"commit":null', b"[]"])
def test_invalid_answers_are_rejected(answer: bytes) -> None:
    with pytest.raises(ShimError):
        split_answer(answer)


@given(OBJECTS)
def test_a_job_is_one_json_object_in_arqs_layout(payload: dict[str, object]) -> None:
    job = json.loads(wire.job_json("inject", json.dumps(payload).encode(), 1500, 7))
    assert job == {"t": None, "f": "inject", "a": [], "k": {"payload": payload, "budget_ms": 1500}, "et": 7}
