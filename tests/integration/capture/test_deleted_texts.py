"""A captured memory that is deleted leaves the captures, too: hidden at once, and erased when it cannot be restored."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from hooks.queue import connect
from tests.support.service import as_memory, fact
from tests.support.valkey import sync_redis
from worker.adapters.redis.capture_texts import RedisCaptureTexts
from worker.adapters.redis.captures import PROPOSALS_PREFIX, RECEIPT_PREFIX, RedisCaptures
from worker.capture.replacing import propose_replacing
from worker.domain.capture import CaptureReceipt
from worker.operations.client import OperationClient
from worker.operations.registry import CAPTURE, CAPTURE_SHOW, CAPTURES, FORGET, PROPOSALS, PUT, UNDO
from worker.transfer.fields import to_fields

NAME = "Mia"
SAID = ("Remember that my sister Mia lives in Zürich", "Remember that the nightly backup runs at 4")
AGAIN = "remember that Mia, my sister, lives in Zürich"


async def captured(client: OperationClient, session: str, *texts: str) -> dict[str, Any]:
    turns = [{"role": "user", "text": text, "at": "2026-03-04T09:12:00+01:00"} for text in texts]
    return await client.call(CAPTURE, {"session_id": session, "turns": turns, "mode": "auto"})


def kept(url: str) -> str:
    with sync_redis(url) as redis:
        return " ".join(str(json.loads(str(redis.get(key).decode()))) for key in redis.scan_iter(f"{RECEIPT_PREFIX}*"))  # type: ignore[union-attr]


async def shown(client: OperationClient, capture: str) -> str:
    return json.dumps([await client.call(CAPTURE_SHOW, {"id": capture}), await client.call(CAPTURES, {})])


async def test_a_deleted_memory_is_hidden_in_captures_and_then_erased(client: OperationClient, valkey: str) -> None:
    done = await captured(client, "s1", *SAID)
    (mia,) = [change["id"] for change in done["changes"] if NAME in change["text"]]
    await captured(client, "s2", AGAIN)
    capture = done["captures"][0]
    assert NAME in await shown(client, capture)

    await client.call(FORGET, {"ids": [mia]})
    assert NAME not in await shown(client, capture)
    assert "nightly backup" in await shown(client, capture)
    await client.call(UNDO, {"ids": [mia]})
    assert NAME in await shown(client, capture), "what was restored is there again"

    await client.call(FORGET, {"ids": [mia], "permanent": True})
    assert NAME not in kept(valkey)
    assert "nightly backup" in kept(valkey)
    assert NAME not in await shown(client, capture)


async def test_other_tenants_and_what_was_captured_later_keep_their_texts(client: OperationClient, valkey: str) -> None:
    done = await captured(client, "s1", *SAID)
    ids = [change["id"] for change in done["changes"]]
    redis = connect(valkey)
    try:
        texts, now = RedisCaptureTexts(redis), datetime.now(UTC)
        assert await texts.erase("other", dict.fromkeys(ids, now)) == 0
        assert await texts.erase("default", dict.fromkeys(ids, now - timedelta(minutes=1))) == 0
        assert await texts.erase("default", dict.fromkeys(ids, now)) == 1
        assert await texts.erase("default", dict.fromkeys(ids, now)) == 0
    finally:
        await redis.aclose()
    assert NAME not in kept(valkey)


async def test_a_capture_that_is_changed_while_texts_are_erased_has_none_left(
    client: OperationClient, valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await captured(client, "s1", *SAID)
    redis, now, (capture,) = connect(valkey), datetime.now(UTC), done["captures"]
    replace, first = redis.eval, True

    async def changed_before(*given: Any) -> Any:
        nonlocal first
        if first:
            first = False
            later = partial(CaptureReceipt.model_copy, update={"calls": 2})
            await RedisCaptures(redis, 60).revise("default", capture, later)
        return await replace(*given)

    monkeypatch.setattr(redis, "eval", changed_before)
    try:
        gone = dict.fromkeys([change["id"] for change in done["changes"]], now)
        assert await RedisCaptureTexts(redis).erase("default", gone) == 1
    finally:
        await redis.aclose()
    assert NAME not in kept(valkey)
    assert (await client.call(CAPTURE_SHOW, {"id": capture}))["calls"] == 2


@pytest.mark.parametrize("gone", ["old", "new"])
@pytest.mark.parametrize("permanent", [False, True])
async def test_a_proposal_about_a_deleted_memory_goes(
    client: OperationClient, valkey: str, gone: str, permanent: bool
) -> None:
    older, newer = as_memory(fact("old", "Mia lives in Bern")), as_memory(fact("new", "Mia lives in Oslo"))
    await client.call(PUT, {"memories": [to_fields(older), to_fields(newer)]})
    redis = connect(valkey)
    try:
        await propose_replacing(RedisCaptures(redis, 60), "default", "run", datetime.now(UTC), [(newer, older)])
    finally:
        await redis.aclose()
    assert len((await client.call(PROPOSALS, {}))["proposals"]) == 1
    await client.call(FORGET, {"ids": [gone], "permanent": permanent})
    with sync_redis(valkey) as waiting:
        assert bool(waiting.hvals(f"{PROPOSALS_PREFIX}default")) is not permanent
        if not permanent:
            assert (await client.call(PROPOSALS, {}))["proposals"] == []
        assert not waiting.hvals(f"{PROPOSALS_PREFIX}default")
    assert f"Mia lives in {'Oslo' if gone == 'new' else 'x'}" not in await shown(client, "run")
