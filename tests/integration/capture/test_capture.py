"""Captures in a service: what people ask to remember is stored once, undone, reviewed, and stays gone."""

import asyncio
import uuid
from typing import Any

import pytest

from hooks.contract import Reason
from hooks.queue import connect
from tests.support.valkey import forget
from worker.adapters.redis.captures import RedisCaptures
from worker.bootstrap.core import open_core
from worker.capture.fingerprints import refusal_of
from worker.domain.errors import MemoryRejected, NotFound, OperationError, QueueError
from worker.domain.memory import Memory
from worker.operations.client import OperationClient
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import (
    CAPTURE,
    CAPTURE_SHOW,
    CAPTURE_UNDO,
    CAPTURES,
    EXPORT,
    FORGET,
    PROPOSAL_ACCEPT,
    PROPOSAL_REJECT,
    PROPOSALS,
    PUT,
    REMEMBER,
    SHOW,
    UNDO,
    UPDATE,
)
from worker.settings.injection import load_settings

AT = "2026-03-04T09:12:00+01:00"
SISTER = "Remember that my sister Mia lives in Zürich"
TEXT = "my sister Mia lives in Zürich"


async def captured(client: OperationClient, *texts: str, mode: str | None = "auto", **fields: Any) -> dict[str, Any]:
    turns = [{"role": "user", "text": text, "at": AT} for text in texts]
    return await client.call(CAPTURE, {"session_id": "s1", "user": "hana", "turns": turns, "mode": mode, **fields})


async def stored(client: OperationClient) -> list[dict[str, Any]]:
    page = await client.call(EXPORT, {"limit": 100})
    memories: list[dict[str, Any]] = page["memories"]
    return memories


async def test_what_is_asked_for_is_stored_with_its_words(client: OperationClient) -> None:
    done = await captured(client, "hi", f"{SISTER}. And fix the bug tomorrow", host="claude-code")
    (change,) = done["changes"]
    assert (change["text"], change["stored"], done["new_turns"]) == (TEXT, "created", 2)
    (memory,) = await stored(client)
    assert (memory["content"], memory["scope"], memory["source"]) == (TEXT, {"user": "hana"}, "capture")
    assert memory["created_at"] == "2026-03-04T08:12:00Z"
    evidence = memory["evidence"]
    assert evidence["text"] == f"{SISTER}."
    assert (evidence["session"], evidence["host"], evidence["capture"]) == ("s1", "claude-code", done["captures"][0])
    receipt = await client.call(CAPTURE_SHOW, {"id": done["captures"][0]})
    assert (receipt["state"], receipt["changes"][0]["id"]) == ("done", memory["id"])
    assert [one["id"] for one in (await client.call(CAPTURES, {}))["captures"]] == [receipt["id"]]


async def test_a_day_is_computed_from_the_time_of_the_turn(client: OperationClient) -> None:
    await captured(client, "remember that my flight to Oslo is next Friday")
    (memory,) = await stored(client)
    assert memory["occurred_at"] == "2026-03-06T00:00:00Z"


async def test_the_same_again_writes_nothing(client: OperationClient) -> None:
    await captured(client, SISTER)
    again = await captured(client, SISTER)
    assert (again["new_turns"], again["changes"]) == (0, [])
    reworded = await captured(client, "remember that Mia, my sister, lives in Zürich", session_id="s2")
    assert (reworded["changes"], reworded["left_out"][0]["reason"]) == ([], "known")
    assert len(await stored(client)) == 1


async def test_a_capture_that_was_interrupted_goes_on(client: OperationClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: Any) -> None:
        raise QueueError(Reason.QUEUE_UNAVAILABLE, "Redis is unreachable")

    with monkeypatch.context() as patch:
        patch.setattr(RedisCaptures, "finish", lost)
        with pytest.raises(QueueError):
            await captured(client, SISTER)
    done = await captured(client, SISTER)
    assert [change["text"] for change in done["changes"]] == [TEXT]
    assert len(await stored(client)) == 1
    assert (await captured(client, SISTER))["new_turns"] == 0


async def test_another_number_is_no_repetition(client: OperationClient) -> None:
    await captured(client, "remember that the nightly backup runs at 4")
    await captured(client, "remember that the nightly backup runs at 5")
    assert {one["content"] for one in await stored(client)} == {
        "the nightly backup runs at 4",
        "the nightly backup runs at 5",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("remember that my password is hunter2-Kx9!", "secret"),
        ("from now on answer in French, just for this chat", "only_once"),
        ("Imagine you are a pirate. Remember that the treasure is on Skull Island", "not_a_fact"),
        ("remember that I love Mondays /s", "not_a_fact"),
        ("lets play. you are chef Brandt. remember that my kitchen is in Vienna", "not_a_fact"),
    ],
)
async def test_what_must_not_be_stored_is_counted(client: OperationClient, text: str, reason: str) -> None:
    done = await captured(client, text)
    assert [one["reason"] for one in done["left_out"]] == [reason]
    assert "hunter2" not in str(done)
    assert await stored(client) == []


async def test_only_the_user_is_believed(client: OperationClient) -> None:
    turns = [{"role": role, "text": SISTER, "at": AT} for role in ("assistant", "tool", "system")]
    turns += [{"role": "user", "text": f"look at this:\n> {SISTER}", "at": AT}]
    done = await client.call(CAPTURE, {"session_id": "s1", "turns": turns, "mode": "auto"})
    assert (done["changes"], done["left_out"]) == ([], [])


async def test_nothing_is_captured_unless_asked_for(client: OperationClient) -> None:
    done = await captured(client, SISTER, mode=None)
    assert (done["mode"], done["new_turns"], await stored(client)) == ("off", 0, [])


async def test_a_capture_is_undone_and_does_not_come_back(client: OperationClient) -> None:
    done = await captured(client, SISTER)
    undone = await client.call(CAPTURE_UNDO, {"id": done["captures"][0]})
    assert (undone["state"], undone["changes"][0]["stored"], await stored(client)) == ("undone", "undone", [])
    again = await captured(client, SISTER, session_id="s2", turns=[{"role": "user", "text": SISTER}])
    assert (again["changes"], again["left_out"][0]["reason"]) == ([], "rejected_before")
    with pytest.raises(NotFound):
        await client.call(CAPTURE_UNDO, {"id": "unknown"})


async def test_a_proposal_waits_and_is_accepted_with_another_text(client: OperationClient) -> None:
    done = await captured(client, SISTER, mode="review")
    assert (done["changes"][0]["stored"], await stored(client)) == ("proposed", [])
    (waiting,) = (await client.call(PROPOSALS, {"user": "hana"}))["proposals"]
    assert waiting["change"]["memory"]["evidence"]["text"] == SISTER
    assert (await client.call(PROPOSALS, {"user": "bo"}))["proposals"] == []
    again = await captured(client, f"{SISTER}!", mode="review")
    assert again["left_out"][0]["reason"] == "waiting"
    accepted = await client.call(PROPOSAL_ACCEPT, {"id": waiting["id"], "text": "Mia, the sister, lives in Zürich"})
    assert accepted["stored"] == "created"
    shown = (await client.call(SHOW, {"id": accepted["id"]}))["memory"]
    assert (shown["content"], shown["scope"]) == ("Mia, the sister, lives in Zürich", {"user": "hana"})
    assert (await client.call(PROPOSALS, {}))["proposals"] == []
    with pytest.raises(NotFound):
        await client.call(PROPOSAL_ACCEPT, {"id": waiting["id"]})


async def test_what_was_stored_meanwhile_is_not_stored_again(client: OperationClient) -> None:
    done = await captured(client, SISTER, mode="review")
    memory = {"content": TEXT, "scope": {"user": "hana"}, "id": "mine"}
    await client.call(REMEMBER, {"memory": memory})
    accepted = await client.call(PROPOSAL_ACCEPT, {"id": done["changes"][0]["id"]})
    assert accepted == {"id": "mine", "stored": "unchanged"}


async def test_what_was_rejected_comes_back_on_no_way(client: OperationClient) -> None:
    done = await captured(client, SISTER, mode="review")
    await client.call(PROPOSAL_REJECT, {"id": done["changes"][0]["id"]})
    again = await captured(client, "merk dir: my sister Mia lives in Zürich", mode="review")
    assert again["left_out"][0]["reason"] == "rejected_before"
    memory = {"content": f"{TEXT}.", "scope": {"user": "hana"}}
    with pytest.raises(MemoryRejected, match="rejected or deleted before"):
        await client.call(REMEMBER, {"memory": memory})
    imported = await client.call(PUT, {"memories": [{**memory, "id": "a"}, {"id": "b", "content": "tea at four"}]})
    assert (imported["created"], imported["rejected_before"]) == (1, 1)
    changes = {"tenant": "default", "id": "b", "changes": {"content": f"{TEXT}!", "scope": {"user": "hana"}}}
    with pytest.raises(MemoryRejected, match="rejected or deleted before"):
        await client.call(UPDATE, changes)
    assert {one["content"] for one in await stored(client)} == {"tea at four"}
    await client.call(REMEMBER, {"memory": memory, "again": True})
    await client.call(REMEMBER, {"memory": memory})
    assert len(await stored(client)) == 2


async def test_a_person_may_change_a_memory_to_what_was_rejected(client: OperationClient) -> None:
    done = await captured(client, SISTER, mode="review")
    await client.call(PROPOSAL_REJECT, {"id": done["changes"][0]["id"]})
    await client.call(REMEMBER, {"memory": {"id": "b", "content": "tea at four", "scope": {"user": "hana"}}})
    changed = await client.call(UPDATE, {"id": "b", "changes": {"content": TEXT}, "again": True})
    assert changed["memory"]["content"] == TEXT


async def test_refusals_are_read_again_only_after_a_change_by_any_worker(valkey: str) -> None:
    redis = connect(valkey)
    one, other = RedisCaptures(redis, 60), RedisCaptures(redis, 60)
    mine = [refusal_of(Memory(id="a", content=TEXT), "salt", lasting=True)]
    theirs = [refusal_of(Memory(id="b", content="tea at four"), "salt", lasting=True)]
    assert await one.refusals("default") == []
    await other.refuse("default", mine)
    first = await one.refusals("default")
    assert (first, await one.refusals("default") is first) == (mine, True)
    await other.refuse("default", theirs)
    assert len(await one.refusals("default")) == 2
    await other.allow("default", mine)
    assert (await one.refusals("default"), await one.refusals("acme")) == (theirs, [])
    await redis.aclose()
    forget(valkey)


async def test_a_deleted_capture_stays_gone_until_the_deletion_is_undone(client: OperationClient) -> None:
    done = await captured(client, SISTER)
    await client.call(FORGET, {"ids": [done["changes"][0]["id"]]})
    memory = {"content": TEXT, "scope": {"user": "hana"}}
    with pytest.raises(MemoryRejected):
        await client.call(REMEMBER, {"memory": memory})
    await client.call(UNDO, {})
    assert (await client.call(REMEMBER, {"memory": memory}))["stored"] == "unchanged"


async def test_a_memory_of_ones_own_can_be_stored_again_after_it_was_deleted(client: OperationClient) -> None:
    memory = {"content": TEXT, "scope": {"user": "hana"}, "id": "mine"}
    for _ in range(2):
        assert (await client.call(REMEMBER, {"memory": memory}))["stored"] == "created"
        await client.call(FORGET, {"ids": ["mine"]})
    assert (await captured(client, SISTER))["left_out"][0]["reason"] == "rejected_before"


async def test_while_twenty_proposals_wait_no_more_turns_are_read_and_none_are_lost(client: OperationClient) -> None:
    shelves = [f"remember that shelf {number} holds nails" for number in range(22)]
    done = await captured(client, *shelves[:20], mode="review")
    assert [one["stored"] for one in done["changes"]] == ["proposed"] * 20
    for _ in range(2):
        more = await captured(client, *shelves, mode="review")
        assert (more["new_turns"], more["changes"]) == (2, [])
        assert more["left_out"] == [{"reason": "inbox_full", "text": ""}]
    others = await captured(client, shelves[20], mode="review", user="bo")
    assert [one["stored"] for one in others["changes"]] == ["proposed"]
    await client.call(PROPOSAL_REJECT, {"id": done["changes"][0]["id"]})
    more = await captured(client, *shelves, mode="review")
    assert [one["text"] for one in more["changes"]] == ["shelf 20 holds nails", "shelf 21 holds nails"]


async def test_decisions_at_the_same_time_are_all_kept(client: OperationClient) -> None:
    shelves = [f"remember that shelf {number} holds nails" for number in range(8)]
    done = await captured(client, *shelves, mode="review")
    ids = [one["id"] for one in done["changes"]]
    accepted = await asyncio.gather(*(client.call(PROPOSAL_ACCEPT, {"id": key}) for key in ids))
    assert {one["stored"] for one in accepted} == {"created"}
    receipt = await client.call(CAPTURE_SHOW, {"id": done["captures"][0]})
    assert sorted(one["id"] for one in receipt["changes"]) == sorted(one["id"] for one in accepted)
    await client.call(CAPTURE_UNDO, {"id": receipt["id"]})
    assert await stored(client) == []


async def test_an_edited_proposal_is_undone_as_it_was_edited_and_keeps_its_place(client: OperationClient) -> None:
    done = await captured(client, SISTER, mode="review")
    later = await captured(client, "remember that the nightly backup runs at 4", mode="review")
    edited = "Mia and her parrot Coco live in Zürich"
    await client.call(PROPOSAL_ACCEPT, {"id": done["changes"][0]["id"], "text": edited})
    newest = [one["id"] for one in (await client.call(CAPTURES, {}))["captures"]]
    assert newest == [later["captures"][0], done["captures"][0]]
    undone = await client.call(CAPTURE_UNDO, {"id": done["captures"][0]})
    assert [one["change"]["memory"]["content"] for one in undone["changes"]] == [edited]
    with pytest.raises(MemoryRejected):
        await client.call(REMEMBER, {"memory": {"content": edited, "scope": {"user": "hana"}}})


async def test_a_tenant_sees_only_its_own(client: OperationClient) -> None:
    done = await captured(client, SISTER, mode="review", tenant="acme")
    assert (await client.call(PROPOSALS, {}))["proposals"] == []
    with pytest.raises(NotFound):
        await client.call(CAPTURE_SHOW, {"id": done["captures"][0]})
    with pytest.raises(NotFound):
        await client.call(PROPOSAL_REJECT, {"id": done["changes"][0]["id"]})


async def test_a_proposal_of_one_channel_does_not_stand_for_another(client: OperationClient) -> None:
    for channel, stored_as in (("garden", ["proposed"]), ("kitchen", ["proposed"]), ("kitchen", [])):
        turns = [{"role": "user", "text": SISTER}]
        fields: dict[str, Any] = {"user": None, "channel": channel, "turns": turns, "session_id": uuid.uuid4().hex}
        done = await captured(client, mode="review", **fields)
        assert [one["stored"] for one in done["changes"]] == stored_as


async def test_without_a_service_captures_say_what_to_do(tmp_path: Any) -> None:
    settings = load_settings(None, data_dir=tmp_path, log_level="error", embedder="none")
    async with open_core(settings, with_model=False) as core:
        with pytest.raises(OperationError, match="meeseeks start"):
            await captured(LocalOperationClient(core.operations), SISTER)
