"""Pinned memories come with the first request of a session, even if its message is not searched with."""

import asyncio
from pathlib import Path

import pytest

from hooks.contract import Outcome, Reason
from tests.support.service import fact, ids, open_service

PINNED = {"ambient_enabled": True, "pinned_types": ["goal"]}
MEMORIES = [
    fact("goal", "Ship the Kingfisher release in March", type="goal"),
    fact("other", "The kiln is booked on Fridays"),
]


@pytest.mark.parametrize("message", ["", " \n", "[Image #1]", "hello", "👋"])
async def test_the_first_request_brings_pinned_memories(tmp_path: Path, message: str) -> None:
    async with open_service(tmp_path, **PINNED) as service:
        await service.put(MEMORIES)
        first = await service.ask(message)
        second = await service.ask(message)
    assert ids(first) == ["goal"]
    assert second.outcome is Outcome.SKIPPED


async def test_a_notice_of_the_host_brings_nothing(tmp_path: Path) -> None:
    async with open_service(tmp_path, **PINNED) as service:
        await service.put(MEMORIES)
        result = await service.ask("<task-notification>Kingfisher is done</task-notification>")
    assert (result.outcome, result.reason) == (Outcome.SKIPPED, Reason.HOST_NOTICE)


async def test_without_pinned_types_a_blank_message_is_skipped(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        await service.put(MEMORIES)
        result = await service.ask("")
    assert (result.outcome, result.reason) == (Outcome.SKIPPED, Reason.EMPTY_MESSAGE)


async def test_parallel_turns_show_a_memory_once(tmp_path: Path) -> None:
    question = "When is the kiln booked?"
    async with open_service(tmp_path) as service:
        await service.put(MEMORIES)
        results = await asyncio.gather(*(service.ask(question, turn=str(turn)) for turn in range(6)))
        other = await service.ask(question, turn="1", agent_id="reviewer")
    assert sorted(map(ids, results)) == [[], [], [], [], [], ["other"]]
    assert {result.outcome for result in results if not ids(result)} == {Outcome.ALL_DUPLICATE}
    assert ids(other) == ["other"]


async def test_a_pinned_memory_comes_with_any_message_of_its_scope(tmp_path: Path) -> None:
    """Whatever its type and the message, and with `ambient_enabled` off."""
    hers = fact("pin", "Reply to Hana in French", pinned=True, scope={"user": "hana"})
    message, hana = "Convert 40 miles to kilometres", {"tenant": "t1", "user": "hana"}
    async with open_service(tmp_path) as service:
        await service.put([hers, MEMORIES[1]])
        answers = [
            await service.ask(message, session_id="s1", scope=hana),
            await service.ask("hello", session_id="s2", scope=hana),
            await service.ask(message, session_id="s3", scope={"tenant": "t1", "user": "oscar"}),
        ]
        await service.memory_service.update("t1", "pin", {"pinned": False})
        later = await service.ask(message, session_id="s4", scope=hana)
    assert [ids(one) for one in (*answers, later)] == [["pin"], ["pin"], [], []]
