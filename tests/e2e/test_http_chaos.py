"""The service is killed and started again while many ask it: everybody goes on with the message as it is, in time."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from hooks import InjectionResult, MeeseeksClient, PreExecutionHook
from tests.support.load import Stopwatch
from tests.support.ports import free_port
from tests.support.stack import FACTS, MIGRATION, Stack, assert_discreet, put, running_stack

pytestmark = pytest.mark.slow

CALLERS = 200
DEADLINE_MS = 4000
LATEST_S = 1.0
"""Seconds that a call may outlast its deadline where two hundred callers and a service that starts share two cores."""

BLOCK = "<memory_context>"


@dataclass(frozen=True)
class Told:
    """What a caller goes on with, and the seconds that it waited."""

    message: str
    seconds: float

    @property
    def has_block(self) -> bool:
        return self.message.startswith(BLOCK)


Ask = Callable[[], Awaitable[str]]


def request() -> dict[str, Any]:
    return {
        "session_id": uuid.uuid4().hex,
        "message": MIGRATION,
        "scope": {"tenant": "acme"},
        "mode": "deterministic",
        "deadline_ms": DEADLINE_MS,
    }


def through_client(client: MeeseeksClient) -> Ask:
    async def ask() -> str:
        return (await client.inject(request())).prefix(MIGRATION)

    return ask


def through_hook(hook: PreExecutionHook) -> Ask:
    async def ask() -> str:
        return (await hook(request())).prefix(MIGRATION)

    return ask


def through_plain_http(client: httpx.AsyncClient) -> Ask:
    """The rule of `docs/http.md` in a few lines: whatever is no block in time, go on with the message as it is."""

    async def ask() -> str:
        try:
            async with asyncio.timeout(DEADLINE_MS / 1000):
                answer = await client.post("/v1/inject", json=request())
            return InjectionResult.model_validate(answer.json()).prefix(MIGRATION)
        except (TimeoutError, httpx.HTTPError, ValueError):
            return MIGRATION

    return ask


async def timed(ask: Ask) -> Told:
    watch = Stopwatch()
    return Told(await ask(), watch.seconds)


def assert_untouched(told: list[Told]) -> None:
    """Every message is as it was, or has one block in front of it; nobody waited longer than agreed."""
    assert all(one.message == MIGRATION or (one.has_block and one.message.endswith(MIGRATION)) for one in told)
    assert max(one.seconds for one in told) <= DEADLINE_MS / 1000 + LATEST_S


@pytest.fixture
async def stack(tmp_path: Path) -> Any:
    """A service at a port that it has again after a restart; none that comes right after one that was killed."""
    options = ("up", "--model", "none", "--http", "--http-port", str(free_port()))
    with running_stack(tmp_path, *options, MEESEEKS_HTTP_RATE_LIMIT="0") as stack:
        await put(stack.url, FACTS)
        yield stack
        assert_discreet(stack.log)


@pytest.fixture
async def callers(stack: Stack) -> Any:
    """The three ways in which a program asks."""
    limits = httpx.Limits(max_connections=CALLERS)
    async with (
        MeeseeksClient(stack.http, timeout=DEADLINE_MS / 1000) as client,
        PreExecutionHook(stack.url) as hook,
        httpx.AsyncClient(base_url=stack.http, limits=limits, timeout=None) as plain,
    ):
        yield [through_client(client), through_hook(hook), through_plain_http(plain)]


async def asked_at_once(ask: Ask) -> list[asyncio.Task[Told]]:
    """Let all callers ask, and return when the first has a block; a busy machine may answer none of them in time."""
    for _ in range(5):
        await until_a_block_comes(ask)
        asked = [asyncio.create_task(timed(ask)) for _ in range(CALLERS)]
        while not all(task.done() for task in asked):
            if any(task.done() and task.result().has_block for task in asked):
                return asked
            await asyncio.sleep(0.001)
        assert_untouched([task.result() for task in asked])
    raise AssertionError("none of two hundred calls was answered, five times")


@pytest.mark.parametrize("way", ["client", "hook", "plain"])
async def test_killed_among_two_hundred_calls(stack: Stack, callers: list[Ask], way: str) -> None:
    ask = callers[["client", "hook", "plain"].index(way)]
    asked = await asked_at_once(ask)
    stack.kill()
    told = await asyncio.gather(*asked)
    assert_untouched(told)
    assert any(one.has_block for one in told)
    assert not all(one.has_block for one in told), "it was killed while they asked"


async def test_restarted_under_load(stack: Stack, callers: list[Ask]) -> None:
    over, told = asyncio.Event(), list[Told]()

    async def keep_asking(ask: Ask) -> None:
        while not over.is_set():
            told.append(await timed(ask))
            await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as asking:
        for ask in callers * 4:
            asking.create_task(keep_asking(ask))
        await asyncio.sleep(1.0)
        before = len(told)
        assert await asyncio.to_thread(stack.stop) == 0
        await asyncio.sleep(0.5)
        down = len(told)
        await asyncio.to_thread(stack.start)
        back = await asyncio.gather(*(until_a_block_comes(ask) for ask in callers))
        over.set()
    assert_untouched(told)
    assert any(one.has_block for one in told[:before])
    assert not all(one.has_block for one in told[before:down])
    assert max(back) < 30.0


async def until_a_block_comes(ask: Ask) -> float:
    """Seconds until there is one again: a client that has found nobody leaves the service alone for some seconds."""
    started = time.monotonic()
    while not (await timed(ask)).has_block:
        assert time.monotonic() - started < 60
        await asyncio.sleep(0.2)
    return time.monotonic() - started


async def test_a_service_that_hangs_costs_its_callers_their_deadline_at_most(stack: Stack, callers: list[Ask]) -> None:
    with stack.frozen():
        told = await asyncio.gather(*(timed(ask) for ask in callers * 20))
    assert_untouched(told)
    assert not any(one.has_block for one in told)
    for ask in callers:
        await until_a_block_comes(ask)


async def test_a_host_gets_nothing_and_no_error(stack: Stack) -> None:
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": MIGRATION}
    async with httpx.AsyncClient(base_url=stack.http, timeout=10) as client:
        late = await client.post("/v1/hooks/claude-code?tenant=acme&deadline_ms=1", json=event)
        fine = await client.post("/v1/hooks/claude-code?tenant=acme", json=event)
    assert (late.status_code, late.json()) == (200, {})
    assert fine.status_code == 200
    assert BLOCK in fine.json()["hookSpecificOutput"]["additionalContext"]
