"""`meeseeks-hook HOST` as a process, through the queue and over HTTP."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from hooks.protocol import console
from tests.integration.hooks.test_shim import FILE, MODULE, REQUEST, SLACK_S, assert_silent, environment
from tests.support.hosts import event_of, fixtures
from tests.support.queue_worker import running_worker
from tests.support.valkey import running_valkey, sync_redis
from worker.hosts import HOSTS

PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "caf\u00e9 \U0001f600"}
CONTEXT = "<memory_context>caf\u00e9 \U0001f600</memory_context>"
NATIVE = {
    "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": CONTEXT},
    "systemMessage": "Meeseeks: 1 memory",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_valkey() as server, running_worker(server.url):
        yield server.url


def run(
    url: str, arguments: Sequence[str], event: object, command: Sequence[str] = FILE, **variables: str
) -> "subprocess.CompletedProcess[bytes]":
    data = event if isinstance(event, bytes) else json.dumps(event).encode()
    return subprocess.run(
        [*command, *arguments],
        input=data,
        capture_output=True,
        env=environment(url, **variables),
        timeout=20,
        check=False,
    )


def output(done: "subprocess.CompletedProcess[bytes]") -> Any:
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"}\n")
    assert done.stdout.isascii()
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "command", [FILE, MODULE, [sys.executable, "-m", "hooks.shim"]], ids=["file", "package", "module"]
)
def test_a_native_event_is_answered_natively(url: str, command: list[str]) -> None:
    assert output(run(url, ["claude-code"], PROMPT, command)) == NATIVE
    assert output(run(url, ["codex"], PROMPT, command)) == NATIVE


@pytest.mark.parametrize("fixture", fixtures("with_block"), ids=str)
def test_every_golden_event_gets_valid_output(url: str, fixture: Any) -> None:
    if "start" in fixture.raw:
        run(url, ["claude-code"], {**event_of("claude-code/pre-tool-use.agent"), **_same_kind(fixture)})
    answered = output(run(url, [fixture.host.name], fixture.event))
    assert answered.keys() == fixture.raw["with_block"].keys()
    assert fixture.host.faults(fixture.event, answered) == []


def _same_kind(fixture: Any) -> dict[str, Any]:
    kind = fixture.raw["start"]
    return {"session_id": kind["session_id"], "tool_input": {"prompt": "x", "subagent_type": kind["agent_type"]}}


@pytest.mark.parametrize("fixture", [one for one in fixtures() if "with_block" not in one.raw], ids=str)
def test_events_without_output_print_nothing(url: str, fixture: Any) -> None:
    if "inject" in fixture.raw:
        return
    done = run(url, [fixture.host.name], fixture.event)
    expected = fixture.raw.get("followed", dict(fixture.host.nothing))
    if expected == {}:
        assert_silent(done)
    elif "followed" in fixture.raw:
        assert output(done) == {**expected, "previous_count": 2}
    else:
        assert output(done) == expected


@pytest.mark.parametrize("fixture", fixtures(), ids=str)
def test_every_event_is_explained_in_one_line_with_debug(url: str, fixture: Any) -> None:
    done = run(url, [fixture.host.name], fixture.event, MEESEEKS_DEBUG="1")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("meeseeks-hook: ")
    assert len(line) < 400


def test_an_empty_answer_is_not_printed(url: str) -> None:
    assert_silent(run(url, ["claude-code"], {**PROMPT, "session_id": "nothing"}))
    silent = {"request": {"event": {"content": "x"}, "request_id": "nothing"}}
    assert output(run(url, ["nexus"], silent)) == {"fire": False, "blocking": True, "enrich": {"memories": None}}


def test_the_scope_comes_from_the_environment_and_memories_are_marked_as_shown(url: str) -> None:
    """This test's worker uses the project as the ledger key."""
    ledger = 'ledger-"caf\u00e9\U0001f600"\\'
    shown = {"m1": {"version": 1, "turn": 1, "block_id": "b"}}
    with sync_redis(url) as redis:
        redis.hset(ledger, "t:turn-1", json.dumps({"n": 1, "shown": shown, "committed": False}))
        redis.expire(ledger, 60)
        event = {**PROMPT, "turn_id": "turn-1", "cwd": "/home/ada/elsewhere"}
        assert output(run(url, ["codex"], event, MEESEEKS_PROJECT=ledger, MEESEEKS_USER="ada")) == NATIVE
        assert json.loads(redis.hget(ledger, "m:m1"))["block_id"] == "b"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["emacs"], b"unknown host"),
        (["claude-code", "codex"], b"at most one argument"),
        (["../x"], b"at most one argument"),
        (["caf\u00e9"], b"at most one argument"),
        ([""], b"at most one argument"),
    ],
)
def test_invalid_arguments_are_reported(url: str, arguments: list[str], said: bytes) -> None:
    done = run(url, arguments, PROMPT, MEESEEKS_DEBUG="1")
    assert (done.returncode, done.stdout) == (0, b"")
    assert said in done.stderr


@pytest.mark.parametrize("data", [b"", b"[]", b"nonsense", b'{"session_id":"s"', b'{"a":}', b"\xff\xfe"])
@pytest.mark.parametrize("host", HOSTS)
def test_broken_input_gives_the_hosts_nothing_and_one_line(url: str, host: str, data: bytes) -> None:
    done = run(url, [host], data)
    assert done.returncode == 0
    assert json.loads(done.stdout) == HOSTS[host].nothing
    assert done.stderr.startswith(b"meeseeks-hook: no memory: standard input ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("host", HOSTS)
def test_without_a_service_the_host_gets_its_nothing(host: str) -> None:
    done = run("unix:///no/such/socket", [host], PROMPT)
    assert (done.returncode, done.stderr) == (0, b"")
    if host in console.SIGNED:
        assert done.stdout == console.SIGN
        assert HOSTS[host].faults(PROMPT, json.loads(done.stdout)) == []
        return
    assert json.loads(done.stdout or b"{}") == HOSTS[host].nothing


@pytest.mark.parametrize("url", ["unix:///no/such/socket", "redis://127.0.0.1:9/0"])
def test_only_the_user_of_a_prompt_is_told_that_memory_is_off(url: str) -> None:
    assert b"memory is off" in run(url, ["codex"], PROMPT).stdout
    assert b"memory is off" in run(url, ["codex"], PROMPT, MEESEEKS_URL="http://127.0.0.1:9").stdout
    assert_silent(run(url, ["claude-code"], {**PROMPT, "hook_event_name": "PreCompact"}))
    assert_silent(run(url, ["claude-code"], PROMPT, MEESEEKS_DISABLE="1"))
    assert_silent(run(url, [], PROMPT))


def test_a_wrong_type_is_not_broken_input(url: str) -> None:
    assert_silent(run(url, ["codex"], b'{"prompt":7}'))


def test_a_slow_answer_times_out(url: str) -> None:
    begun = time.monotonic()
    assert_silent(run(url, ["claude-code"], {**PROMPT, "session_id": "slow"}, MEESEEKS_TIMEOUT_MS="400"))
    assert 0.25 <= time.monotonic() - begun < 0.4 + SLACK_S


@dataclass
class HttpDouble:
    """A server that records requests and sends fixed bytes."""

    answer: list[bytes]
    pause_s: float = 0.0
    seen: list[bytes] = field(default_factory=list)
    url: str = ""

    def serve(self, server: socket.socket) -> None:
        while True:
            try:
                link, _ = server.accept()
            except OSError:
                return
            with link, suppress(OSError):  # a caller may be gone
                self.seen.append(self._request(link))
                for part in self.answer:
                    link.sendall(part)
                    time.sleep(self.pause_s)

    def _request(self, link: socket.socket) -> bytes:
        data = b""
        while True:
            data += link.recv(65_536)
            head, mark, body = data.partition(b"\r\n\r\n")
            if mark and len(body) >= int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
                return data


@contextmanager
def http_double(*answer: bytes, pause_s: float = 0.0) -> Iterator[HttpDouble]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        double = HttpDouble(list(answer), pause_s, url=f"http://127.0.0.1:{server.getsockname()[1]}")
        thread = threading.Thread(target=double.serve, args=(server,))
        thread.start()
        try:
            yield double
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def over_http(
    double: HttpDouble, arguments: Sequence[str], event: object = PROMPT, **variables: str
) -> "subprocess.CompletedProcess[bytes]":
    return run("unix:///nobody", arguments, event, MEESEEKS_URL=double.url + "/base/", **variables)


BODY = json.dumps(NATIVE).encode()
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = [
    OK + b"Transfer-Encoding: chunked\r\n\r\n",
    b"5;x=y\r\n" + BODY[:5] + b"\r\n",
    b"%x\r\n" % (len(BODY) - 5) + BODY[5:] + b"\r\n",
    b"0\r\n\r\n",
]


@pytest.mark.parametrize(
    "answer",
    [
        [OK + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY],
        [OK + b"content-length: %d\r\n\r\n" % len(BODY), BODY[:10], BODY[10:]],
        CHUNKED,
        [b"HTTP/1.0 200\r\n\r\n" + BODY],
    ],
    ids=["length", "parts", "chunked", "close"],
)
def test_http_replaces_the_queue(answer: list[bytes]) -> None:
    with http_double(*answer) as double:
        assert output(over_http(double, ["claude-code"], MEESEEKS_TOKEN="t0k3n")) == NATIVE
    (request,) = double.seen
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /base/v1/hooks/claude-code HTTP/1.1"
    assert b"Authorization: Bearer t0k3n" in lines
    assert b"Host: " + double.url.removeprefix("http://").encode() in lines
    (limit,) = [int(line.split(b": ")[1]) for line in lines if line.startswith(b"X-Deadline-Ms: ")]
    assert 1 <= limit <= 2800
    assert json.loads(body) == PROMPT


def test_http_sends_the_scope_in_the_query() -> None:
    with http_double(OK + b"Content-Length: 2\r\n\r\n{}") as double:
        assert_silent(over_http(double, ["codex"], MEESEEKS_USER="a b&c=\u00e9", MEESEEKS_PROJECT="shop"))
    assert double.seen[0].startswith(b"POST /base/v1/hooks/codex?user=a%20b%26c%3D%C3%A9&project=shop HTTP/1.1\r\n")


def test_http_requests_without_a_host_use_the_inject_endpoint() -> None:
    with http_double(OK + b'Content-Length: 24\r\n\r\n{"outcome": "x", "y": 1}') as double:
        assert output(over_http(double, [], REQUEST)) == {"outcome": "x", "y": 1}
    assert double.seen[0].startswith(b"POST /base/v1/inject HTTP/1.1\r\n")
    assert b"Authorization" not in double.seen[0]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([OK + b"Content-Length: 2\r\n\r\n{}"], b""),
        ([OK + b"Content-Length: 0\r\n\r\n"], b""),
        ([b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}"], b"the service answered 503"),
        ([b"HTTP/1.1 404 Not Found\r\n\r\n" + BODY], b"the service answered 404"),
        ([OK + b"Content-Length: 900\r\n\r\n" + BODY], b"incomplete"),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc"], b"incomplete"),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc"], b"ValueError"),
        ([b"-NOAUTH go away\r\n"], b"does not speak HTTP"),
        ([b""], b"does not speak HTTP"),
        ([OK + b"\r\n", b"x" * 5_000_000], b"longer than"),
    ],
)
def test_an_unusable_response_prints_nothing(answer: list[bytes], said: bytes) -> None:
    with http_double(*answer) as double:
        assert_silent(over_http(double, ["codex"]))
        assert said in over_http(double, ["codex"], MEESEEKS_DEBUG="1").stderr


@pytest.mark.parametrize(
    "address",
    [
        "https://127.0.0.1",
        "ftp://x",
        "127.0.0.1:80",
        "http://",
        "http://a@b",
        "http://127.0.0.1:x",
    ],
)
def test_an_unusable_address_prints_nothing(address: str) -> None:
    assert_silent(run("", ["codex"], PROMPT, MEESEEKS_URL=address))


def test_a_token_cannot_inject_headers() -> None:
    with http_double(OK + b"Content-Length: 2\r\n\r\n{}") as double:
        done = over_http(double, ["codex"], MEESEEKS_TOKEN="a\r\nX-Evil: 1", MEESEEKS_DEBUG="1")
        assert b"control characters" in done.stderr
        assert b"X-Evil" not in done.stderr
    assert double.seen == []


def test_an_endless_response_times_out() -> None:
    with http_double(OK, *[b"X-More: yes\r\n"] * 8, pause_s=0.1) as double:
        begun = time.monotonic()
        assert_silent(over_http(double, ["codex"], MEESEEKS_TIMEOUT_MS="300"))
        assert 0.2 <= time.monotonic() - begun < 0.3 + SLACK_S
