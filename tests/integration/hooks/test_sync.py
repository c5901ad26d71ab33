"""The blocking hook and client, also after a fork and at process exit."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hooks import MeeseeksClient, Outcome, Reason, SyncMeeseeksClient, SyncPreExecutionHook
from hooks.background import CLOSE_TIMEOUT, GRACE, LoopThread, Unfinished, background
from hooks.faults import DeadlinePassed, ServiceUnavailable
from tests.support.http_double import HttpDouble, running_http_double
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.queue_worker import running_worker
from tests.support.stack import NOISE_S
from tests.support.valkey import running_valkey

ECHO = "<memory_context>hi</memory_context>"


@pytest.fixture(scope="module")
def worker_url() -> Iterator[str]:
    with running_valkey() as valkey, running_worker(valkey.url):
        yield valkey.url


@pytest.fixture
def hook(worker_url: str) -> Iterator[SyncPreExecutionHook]:
    with SyncPreExecutionHook(worker_url) as hook:
        yield hook


@pytest.fixture
def double() -> Iterator[HttpDouble]:
    with running_http_double() as double:
        double.answer({"outcome": "injected", "memory_context": ECHO})
        yield double


def test_a_block_is_returned(hook: SyncPreExecutionHook) -> None:
    assert hook({"session_id": "s", "message": "hi"}).memory_context == ECHO
    assert hook.prefix("hi", session_id="s") == f"{ECHO}\n\nhi"
    assert hook.prefix("hi", session_id="nothing") == "hi"
    hook.close()
    assert hook.prefix("hi", session_id="s") == f"{ECHO}\n\nhi"


def test_failures_are_outcomes(hook: SyncPreExecutionHook) -> None:
    assert hook({}).reason is Reason.BAD_REQUEST
    assert hook({"session_id": "s", "message": "hi", "deadline_ms": "soon"}).reason is Reason.BAD_REQUEST
    assert hook.event({"type": "session.exploded"}).reason is Reason.BAD_REQUEST
    with SyncPreExecutionHook("unix:///no/such/socket") as lost:
        assert lost({"session_id": "s", "message": "hi"}).reason is Reason.QUEUE_UNAVAILABLE


def test_the_deadline_holds(hook: SyncPreExecutionHook) -> None:
    started = time.monotonic()
    result = hook({"session_id": "slow", "message": "hi", "deadline_ms": 400})
    assert (result.outcome, result.reason) == (Outcome.TIMEOUT, Reason.DEADLINE)
    assert time.monotonic() - started < 0.4 + GRACE + NOISE_S


def test_many_threads_share_one_hook(hook: SyncPreExecutionHook) -> None:
    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda n: hook({"session_id": "s", "message": f"m{n}"}), range(40)))
    assert [result.memory_context for result in results] == [
        f"<memory_context>m{n}</memory_context>" for n in range(40)
    ]


async def test_inside_a_running_loop(hook: SyncPreExecutionHook) -> None:
    assert hook.prefix("hi", session_id="s") == f"{ECHO}\n\nhi"


def hang_the_loop(seconds: float) -> None:
    async def hang() -> None:
        time.sleep(seconds)

    with pytest.raises(Unfinished):
        background.do(hang, 0.01)


def test_a_hanging_loop_times_out(hook: SyncPreExecutionHook, double: HttpDouble) -> None:
    hook({"session_id": "s", "message": "hi"})
    client = SyncMeeseeksClient(double.url, timeout=0.2)
    strict = SyncMeeseeksClient(double.url, timeout=0.2, strict=True)
    hang_the_loop(1.5)
    started = time.monotonic()
    result = hook({"session_id": "s", "message": "hi", "deadline_ms": 200})
    by_http = client.inject(session_id="s", message="hi")
    with pytest.raises(DeadlinePassed):
        strict.recall("x")
    assert time.monotonic() - started < 3 * (0.2 + GRACE) + NOISE_S
    assert (result.outcome, result.reason) == (by_http.outcome, by_http.reason) == (Outcome.TIMEOUT, Reason.DEADLINE)
    time.sleep(max(0.0, started + 1.6 - time.monotonic()))
    assert hook({"session_id": "s", "message": "hi"}).memory_context == ECHO


def test_the_client_has_every_method_of_the_async_client() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")} - {"aclose", "close", "timeout"}

    assert (
        calls(SyncMeeseeksClient)
        == calls(MeeseeksClient)
        == {"inject", "prefix", "event", "recall", "remember", "forget", "report", "capture"}
    )


def test_every_method_of_the_client(double: HttpDouble) -> None:
    with SyncMeeseeksClient(double.url) as client:
        assert client.prefix("hi", session_id="s") == f"{ECHO}\n\nhi"
        double.answer({"done": True, "forgotten": 1})
        assert client.event(type="session.cleared", session_id="s").done
        assert client.forget("m").forgotten == 1
        double.answer({"memories": [], "id": "m", "stored": "created"})
        assert client.recall("x", limit=1).reason is None
        assert client.remember("x").stored == "created"


def test_a_refused_connection_is_an_outcome() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with SyncMeeseeksClient(url) as client, SyncMeeseeksClient(url, strict=True) as strict:
        assert client.prefix("hi", session_id="s") == "hi"
        assert client.recall("x").reason is Reason.SERVICE_UNAVAILABLE
        with pytest.raises(ServiceUnavailable):
            strict.remember("x")


def test_connections_are_closed_even_if_the_loop_hangs_meanwhile() -> None:
    closed = threading.Event()

    class Holder:
        async def aclose(self) -> None:
            await asyncio.sleep(0.01)
            closed.set()

    holder = Holder()
    background.do(lambda: asyncio.sleep(0), 1.0, holder=holder)
    hang_the_loop(1.5 * CLOSE_TIMEOUT)
    background.close(holder)
    assert closed.wait(10)


def test_all_hooks_share_one_thread(hook: SyncPreExecutionHook, worker_url: str) -> None:
    hook({"session_id": "s", "message": "hi"})
    with SyncPreExecutionHook(worker_url) as other:
        other({"session_id": "s", "message": "hi"})
    assert [thread.name for thread in threading.enumerate()].count("meeseeks-hooks") == 1


def test_no_work_starts_after_the_loop_is_closed() -> None:
    ended = LoopThread()
    ended.do(lambda: asyncio.sleep(0), 1.0)
    assert ended._current is not None
    ended._current.stop()
    with pytest.raises(Unfinished):
        ended.do(lambda: asyncio.sleep(0), 1.0)


FORK = """
import os, sys, threading
from hooks import SyncPreExecutionHook
hook = SyncPreExecutionHook(sys.argv[1])
def ask():
    return hook({"session_id": "s", "message": "hi"}).memory_context
assert ask() == sys.argv[2]
stop = threading.Event()
def busy():
    while not stop.is_set():
        stop.wait(0.002) or ask()
others = [threading.Thread(target=busy) for _ in range(4)]
for other in others:
    other.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        sys.exit(0 if ask() == ask() == sys.argv[2] else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for other in others:
    other.join()
assert ask() == sys.argv[2]
"""

END = """
import atexit, logging, sys, threading
from hooks import SyncPreExecutionHook
logging.disable()
hook = SyncPreExecutionHook(sys.argv[1])
atexit.register(lambda: sys.stdout.write(f"{hook({'session_id': 's', 'message': 'hi'}).outcome}"))
assert hook({"session_id": "s", "message": "hi"}).memory_context == sys.argv[2]
threading.Thread(target=hook, args=({"session_id": "slow", "message": "hi"},), daemon=True).start()
"""


def run(script: str, url: str) -> str:
    line = [sys.executable, "-W", "error", "-c", script, url, ECHO]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=40, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_forked_child_has_its_own_loop(worker_url: str) -> None:
    assert run(FORK, worker_url) == ""


def test_the_process_exits_cleanly_and_calls_at_exit_have_an_outcome(worker_url: str) -> None:
    started = time.monotonic()
    assert run(END, worker_url) == "timeout"
    assert time.monotonic() - started < 20.0
