"""What the hook answers while everything works."""

import json
import uuid

import pytest

from hooks import Engine, InjectionRequest, InjectionResult, Outcome, PreExecutionHook, Reason
from hooks.contract.blocks import strip_alike
from hooks.protocol.wire import INJECT
from hooks.queue import QueueClient
from tests.support.stack import (
    DEPLOYMENT,
    INVOICES,
    MIGRATION,
    MODEL_KEY,
    MOUNTAIN,
    ModelServer,
    Stack,
    ask,
    exported,
    fact,
    put,
    shim,
)
from worker.operations.registry import RECALL, RECEIPT, RECEIPTS


async def test_without_the_model_the_nearest_memory_is_injected(hook: PreExecutionHook, model: ModelServer) -> None:
    before = len(model.chats())
    answered = await ask(hook, MIGRATION, mode="deterministic")
    assert answered.told == (Outcome.INJECTED, None, Engine.DETERMINISTIC, False)
    assert answered.ids == ["alembic"]
    assert len(model.chats()) == before


async def test_the_block_stands_before_the_message_and_comes_off_again(hook: PreExecutionHook) -> None:
    result = (await ask(hook, MIGRATION, mode="deterministic")).result
    whole = result.prefix(MIGRATION)
    assert whole.startswith("<memory_context>\n")
    assert whole.endswith(f"never by hand (2026-01-10)\n</memory_context>\n\n{MIGRATION}")
    assert strip_alike(whole) == MIGRATION


async def test_the_model_chooses_what_is_injected(hook: PreExecutionHook, model: ModelServer) -> None:
    model.behave(keep=["Invoices"])
    before = len(model.chats())
    answered = await ask(hook, f"{DEPLOYMENT} {INVOICES}")
    assert answered.told == (Outcome.INJECTED, None, Engine.LLM, False)
    assert answered.ids == ["invoices"]
    (chat,) = model.chats()[before:]
    shown = json.dumps(chat["messages"])
    assert "Tuesdays" in shown
    assert MODEL_KEY not in shown


async def test_the_model_may_find_nothing_relevant(hook: PreExecutionHook, model: ModelServer) -> None:
    model.behave(answer='{"relevant":[],"sufficient":true}')
    answered = await ask(hook, MIGRATION)
    assert answered.told == (Outcome.NONE_RELEVANT, Reason.NOTHING_SELECTED, Engine.LLM, False)
    assert answered.result.prefix(MIGRATION) == MIGRATION


async def test_what_resembles_nothing_costs_no_model_call(hook: PreExecutionHook, model: ModelServer) -> None:
    before = len(model.chats())
    answered = await ask(hook, MOUNTAIN)
    assert answered.told[0] == Outcome.NONE_RELEVANT
    assert answered.result.prefix(MOUNTAIN) == MOUNTAIN
    assert len(model.chats()) == before


async def test_the_same_turn_gets_the_same_block_and_the_next_one_none(
    hook: PreExecutionHook, model: ModelServer
) -> None:
    session = uuid.uuid4().hex
    first = await ask(hook, MIGRATION, session_id=session, turn_id="1")
    before = len(model.chats())
    again = await ask(hook, MIGRATION, session_id=session, turn_id="1")
    assert again.result.memory_context == first.result.memory_context is not None
    assert len(model.chats()) == before
    following = await ask(hook, MIGRATION, session_id=session, turn_id="2")
    assert following.told[:2] == (Outcome.ALL_DUPLICATE, Reason.ALREADY_SHOWN)
    other = await ask(hook, MIGRATION, session_id=session, turn_id="3", retention="ephemeral")
    assert other.ids == first.ids
    assert "alembic" in other.ids


async def test_a_block_that_was_never_delivered_is_offered_again(service: Stack, hook: PreExecutionHook) -> None:
    session = uuid.uuid4().hex
    request = InjectionRequest(session_id=session, message=MIGRATION, scope={"tenant": "acme"}, turn_id="1")
    queue = QueueClient(service.url)
    lost = await queue.ask(INJECT, request.model_dump_json().encode(), budget=3.0)
    await queue.aclose()
    offered = [item.id for item in InjectionResult.model_validate(lost.body).items]
    assert "alembic" in offered
    assert (await ask(hook, MIGRATION, session_id=session, turn_id="2")).ids == offered
    assert (await ask(hook, MIGRATION, session_id=session, turn_id="3")).ids == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"source": "heartbeat"}, Reason.SOURCE_SKIPPED),
        ({"source": "retrigger"}, Reason.SOURCE_SKIPPED),
        ({"mode": "off"}, Reason.MODE_OFF),
        ({"message": " \n "}, Reason.EMPTY_MESSAGE),
    ],
)
async def test_some_requests_are_not_searched_for(
    hook: PreExecutionHook, fields: dict[str, str], reason: Reason
) -> None:
    answered = await ask(hook, **{"message": MIGRATION, **fields})
    assert answered.told == (Outcome.SKIPPED, reason, Engine.NONE, False)


async def test_a_request_of_nonsense_is_answered(hook: PreExecutionHook) -> None:
    assert (await ask(hook, MIGRATION, render={"format": "poem"})).told[:2] == (Outcome.ERROR, Reason.BAD_REQUEST)
    assert (await ask(hook, "\x00\ud800" + MIGRATION, mode="deterministic")).ids == ["alembic"]
    assert (await ask(hook, "?" * 500_000, mode="deterministic")).result.memory_context is None


async def test_tenants_see_nothing_of_each_other(service: Stack, hook: PreExecutionHook) -> None:
    theirs_only = {
        "alembic": "Database migrations are written with Django and never by hand",
        "cat": "The office cat sleeps on the printer",
        "lunch": "Lunch is at noon",
    }
    await put(service.url, [fact(key, content) for key, content in theirs_only.items()], tenant="other")
    message = "Are database migrations written by hand?"
    theirs = await ask(hook, message, scope={"tenant": "other"}, mode="deterministic")
    ours = await ask(hook, message, mode="deterministic")
    assert "Django" in (theirs.result.memory_context or "")
    assert "Django" not in (ours.result.memory_context or "Django")
    assert await exported(service.url, "other") == theirs_only
    assert set(await exported(service.url)) == {"alembic", "tuesday", "invoices"}
    queue = QueueClient(service.url)
    found = (await queue.ask(RECALL.name, {"query": DEPLOYMENT, "scope": {"tenant": "other"}}, budget=3.0)).body
    assert "Tuesdays" not in json.dumps(found)
    kept = (await queue.ask(RECEIPTS.name, {"tenant": "other"}, budget=3.0)).body["receipts"]
    assert [receipt["id"] for receipt in kept] == [theirs.result.receipt_id]
    assert "Alembic and never" not in json.dumps(kept)
    with pytest.raises(Exception, match="receipt") as caught:
        await queue.ask(RECEIPT.name, {"tenant": "other", "id": ours.result.receipt_id}, budget=3.0)
    assert caught.value.reason is Reason.NOT_FOUND
    await queue.aclose()


async def test_the_stand_alone_hook_gets_the_same_answer(service: Stack, hook: PreExecutionHook) -> None:
    session = uuid.uuid4().hex
    request = {"session_id": session, "message": MIGRATION, "scope": {"tenant": "acme"}, "mode": "deterministic"}
    ran = shim(service.url, {**request, "turn_id": "1"})
    assert (ran.returncode, ran.stderr) == (0, "")
    result = InjectionResult.model_validate_json(ran.stdout)
    assert [item.id for item in result.items] == ["alembic"]
    assert (await ask(hook, **{**request, "turn_id": "2"})).told[:2] == (Outcome.ALL_DUPLICATE, Reason.ALREADY_SHOWN)
