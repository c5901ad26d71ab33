"""The stand-alone command as a process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooks.contract import InjectionResult, Outcome
from hooks.protocol import wire
from hooks.protocol.size import clipped
from tests.support.ports import free_port
from tests.support.queue_worker import ROOT, running_worker
from tests.support.valkey import running_valkey, sync_redis

FILE = [sys.executable, "-I", "-S", str(ROOT / "hooks" / "shim.py")]
MODULE = [sys.executable, "-m", "hooks"]
REQUEST = {"session_id": "s", "message": "caf\u00e9 \U0001f600"}
SLACK_S = 0.5


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_valkey() as server, running_worker(server.url):
        yield server.url


def environment(url: str, **variables: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MEESEEKS_")}
    return {**kept, "PYTHONPATH": str(ROOT), "MEESEEKS_REDIS_URL": url, **variables}


def run(
    url: str, request: object, command: list[str] | None = None, **variables: str
) -> "subprocess.CompletedProcess[bytes]":
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    return subprocess.run(
        command or FILE, input=data, capture_output=True, env=environment(url, **variables), timeout=20, check=False
    )


def assert_silent(done: "subprocess.CompletedProcess[bytes]") -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("command", [FILE, MODULE])
def test_a_request_on_standard_input_is_answered_on_standard_output(url: str, command: list[str]) -> None:
    done = run(url, REQUEST, command)
    result = InjectionResult.model_validate_json(done.stdout)
    assert result.memory_context == "<memory_context>caf\u00e9 \U0001f600</memory_context>"
    assert done.stdout.isascii()
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_raw_utf8_request_with_trailing_data(url: str) -> None:
    data = b"\xef\xbb\xbf\n" + json.dumps(REQUEST, ensure_ascii=False, indent=2).encode() + b"\n{}\n"
    result = InjectionResult.model_validate_json(run(url, data).stdout)
    assert result.memory_context == "<memory_context>caf\u00e9 \U0001f600</memory_context>"


@pytest.mark.parametrize("accepts", [True, False])
def test_a_job_is_withdrawn_only_if_no_worker_has_accepted_it(accepts: bool) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with running_valkey() as server, sync_redis(server.url) as redis:
        redis.set(wire.ALIVE, 1, ex=20)
        with subprocess.Popen(FILE, env=environment(server.url), **pipes) as asking:
            assert asking.stdin is not None
            assert asking.stdout is not None
            asking.stdin.write(json.dumps(REQUEST).encode())
            asking.stdin.close()
            job_id = redis.blpop(wire.WAKE, timeout=10)[1].decode()
            if accepts:
                redis.set(wire.IN_PROGRESS_PREFIX + job_id, 1, ex=20)
            time.sleep(3 * wire.ACK_TIMEOUT)
            reply = wire.REPLY_PREFIX + job_id
            redis.rpush(reply, wire.ACK, b'{"commit":null,"ok":{"outcome":"injected"}}')
            redis.expire(reply, 20)
            assert asking.stdout.read() == (b'{"outcome":"injected"}\n' if accepts else b"")
            assert asking.wait(10) == 0
        assert redis.exists(wire.JOB_PREFIX + job_id) == accepts


def test_an_answer_without_a_block_is_printed_too(url: str) -> None:
    result = InjectionResult.model_validate_json(run(url, {**REQUEST, "session_id": "nothing"}).stdout)
    assert result.outcome is Outcome.NONE_RELEVANT


def test_invalid_and_long_text(url: str) -> None:
    odd = InjectionResult.model_validate_json(run(url, b'{"session_id":"s","message":"a\\ud800\\u0000"}').stdout)
    assert odd.memory_context == "<memory_context>a\ufffd\0</memory_context>"
    text = "\u20ac" * 350_000
    long = run(url, {"session_id": "s", "message": text, "deadline_ms": 15_000})
    found = InjectionResult.model_validate_json(long.stdout).memory_context
    assert found == f"<memory_context>{clipped(text)}</memory_context>"


def test_memories_are_marked_as_shown(url: str) -> None:
    turn_id, ledger = 't"1\\', "ledger-caf\u00e9"
    with sync_redis(url) as redis:
        shown = {"m1": {"version": 1, "turn": 1, "block_id": "b"}}
        redis.hset(ledger, "t:" + turn_id, json.dumps({"n": 1, "shown": shown, "committed": False}))
        redis.expire(ledger, 60)
        done = run(url, {**REQUEST, "turn_id": turn_id, "scope": {"project": ledger}})
        assert b"memory_context" in done.stdout
        assert json.loads(redis.hget(ledger, "m:m1"))["block_id"] == "b"


def test_standard_input_may_stay_open(url: str) -> None:
    with subprocess.Popen(FILE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(url)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(REQUEST).encode()[:20])
        process.stdin.flush()
        time.sleep(0.1)
        process.stdin.write(json.dumps(REQUEST).encode()[20:])
        process.stdin.flush()
        assert InjectionResult.model_validate_json(process.stdout.read()).outcome is Outcome.INJECTED
        assert process.wait(5) == 0


def test_silent_standard_input_times_out(url: str) -> None:
    start = time.monotonic()
    variables = environment(url, MEESEEKS_TIMEOUT_MS="300")
    with subprocess.Popen(FILE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.wait(5) == 0
    assert 0.3 <= time.monotonic() - start < 0.3 + SLACK_S


@pytest.mark.parametrize(
    ("request_", "variables", "limit_s"),
    [
        ({**REQUEST, "session_id": "slow", "deadline_ms": 500}, {}, 0.5),
        ({**REQUEST, "session_id": "slow", "deadline_ms": 9000}, {"MEESEEKS_TIMEOUT_MS": "400"}, 0.4),
        ({**REQUEST, "session_id": "slow"}, {}, 2.8),
    ],
)
def test_the_time_is_limited(url: str, request_: object, variables: dict[str, str], limit_s: float) -> None:
    start = time.monotonic()
    assert_silent(run(url, request_, **variables))
    assert limit_s - 0.15 <= time.monotonic() - start < limit_s + SLACK_S


@pytest.mark.parametrize("request_", [b"", b"   ", b"[]", b"nonsense", b'{"session_id":"s"', b'{"a":}'])
def test_broken_input_is_said_in_one_line(url: str, request_: object) -> None:
    done = run(url, request_)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.startswith(b"meeseeks-hook: no memory: standard input ")
    assert done.stderr.count(b"\n") == 1


def test_other_errors_are_printed_with_debug_only(url: str) -> None:
    assert_silent(run(url, {"message": 7}))
    assert b"bad_request" in run(url, {"message": 7}, MEESEEKS_DEBUG="1").stderr
    missing = run("unix:///no/such/socket", REQUEST, MEESEEKS_DEBUG="1").stderr
    assert missing == b"meeseeks-hook: no memory: the service is not running; start it with `meeseeks start`\n"
    tls = run("rediss://localhost", REQUEST, MEESEEKS_DEBUG="1")
    assert b"only redis:// and unix://, not rediss://; set MEESEEKS_URL" in tls.stderr


def test_an_outcome_is_explained_with_debug(url: str) -> None:
    assert run(url, REQUEST, MEESEEKS_DEBUG="1").stderr == b"meeseeks-hook: injected\n"


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_is_printed(option: str) -> None:
    done = subprocess.run([*FILE, option], capture_output=True, check=True, timeout=10)
    assert done.stdout.startswith(b"usage: meeseeks-hook [HOST")
    assert b"MEESEEKS_DEBUG=1" in done.stdout


def test_a_request_with_a_huge_history_is_shortened_before_it_is_sent(url: str) -> None:
    turns = [{"role": "user", "content": "the kiln " * 5_000}] * 450
    request_ = {**REQUEST, "recent_messages": turns, "message": "Where is the kiln?", "deadline_ms": 20_000}
    assert len(json.dumps(request_)) > 20_000_000
    begun = time.monotonic()
    assert b"Where is the kiln?" in run(url, request_).stdout
    assert time.monotonic() - begun < 8


def test_it_can_be_turned_off(url: str) -> None:
    assert_silent(run(url, REQUEST, MEESEEKS_DISABLE="1"))
    assert run(url, REQUEST, MEESEEKS_DISABLE="0").stdout


@pytest.mark.parametrize("bad", ["unix:///no/such/socket", "redis://127.0.0.1:1", "http://x", "redis://host:port"])
def test_a_refused_connection_prints_nothing(bad: str) -> None:
    assert_silent(run(bad, REQUEST))


def test_the_embedded_valkey_is_found_by_its_data_folder(tmp_path: Path) -> None:
    with running_valkey() as server, running_worker(server.url):
        home = str(Path(server.url.removeprefix("unix://")).parent)
        assert b"injected" in run("", REQUEST, MEESEEKS_DATA_DIR=home).stdout


def test_without_a_worker_it_is_silent_at_once() -> None:
    with running_valkey() as server:
        start = time.monotonic()
        assert_silent(run(server.url, REQUEST))
        assert time.monotonic() - start < 1.0


def test_a_job_of_a_frozen_worker_is_withdrawn() -> None:
    with running_valkey() as server, running_worker(server.url) as worker:
        worker.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        assert_silent(run(server.url, REQUEST))
        assert time.monotonic() - start < 1.5
        with sync_redis(server.url) as redis:
            assert redis.keys("arq:job:*") == []


def test_a_frozen_redis_times_out() -> None:
    with running_valkey() as server:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
        try:
            start = time.monotonic()
            assert_silent(run(server.url, REQUEST))
            assert time.monotonic() - start < 1.5
        finally:
            os.kill(server.pid, signal.SIGCONT)


def test_over_tcp_with_password_and_database() -> None:
    with running_valkey() as server, sync_redis(server.url) as redis:
        port = free_port()
        redis.config_set("port", port)
        redis.config_set("requirepass", "p@ss")
        tcp = f"redis://:p%40ss@127.0.0.1:{port}/3"
        with running_worker(tcp):
            assert b"injected" in run(tcp, REQUEST).stdout
            assert_silent(run(tcp.replace("p%40ss", "wrong"), REQUEST))
        redis.execute_command("AUTH", "p@ss")
        redis.config_set("requirepass", "")


def test_only_small_modules_are_loaded() -> None:
    script = "import hooks.shim, sys; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], capture_output=True, text=True, env=environment(""), check=True
    )
    slow = {"asyncio", "redis", "pydantic", "arq", "json", "re", "socket", "typing", "threading", "logging", "inspect"}
    assert not slow & set(done.stdout.split())
