"""Requests from message to receipt, with the real store and embedder and a scripted model."""

from pathlib import Path
from typing import Any

import pytest

from hooks.contract import BlockFormat, Engine, Outcome, Reason
from tests.support.scripted_model import Say, ScriptedModel, oracle
from tests.support.service import Service, fact, ids, open_service
from worker.domain.memory import CandidateVerdict

KEY = fact("key", "The spare boat-shed key hangs behind the kayak rack at Lindholm")
HULL = fact("hull", "Ottilie sands the hull of the boat every second April")
SHED = fact("shed", "The boat shed at Lindholm is painted red")
QUESTION = "Where does the spare boat-shed key hang?"


async def filled(service: Service) -> Service:
    await service.put([KEY, HULL, SHED])
    return service


async def test_model_selects_and_the_receipt_explains(tmp_path: Path) -> None:
    model = ScriptedModel([oracle(["kayak rack"])])
    async with open_service(tmp_path, model=model) as service:
        result = await (await filled(service)).ask(QUESTION)
        receipt = await service.receipt(result)
    assert (result.outcome, result.engine, result.degraded, result.reason) == (
        Outcome.INJECTED,
        Engine.LLM,
        False,
        None,
    )
    assert ids(result) == ["key"]
    verdicts = {entry.id: entry.verdict for entry in receipt.considered}
    assert verdicts["key"] is CandidateVerdict.CHOSEN
    assert verdicts["shed"] is CandidateVerdict.NOT_SELECTED
    assert receipt.model is not None
    assert (receipt.model.name, receipt.model.prompt_id) == ("scripted/model", "triage@2")
    assert {"embed", "search", "rank", "triage"} <= set(receipt.stages)
    assert receipt.query == QUESTION
    assert receipt.block_id == result.block_id


async def test_model_may_select_nothing(tmp_path: Path) -> None:
    async with open_service(tmp_path, model=ScriptedModel(['{"relevant":[],"sufficient":true}'])) as service:
        result = await (await filled(service)).ask(QUESTION)
    assert (result.outcome, result.reason, result.engine) == (
        Outcome.NONE_RELEVANT,
        Reason.NOTHING_SELECTED,
        Engine.LLM,
    )
    assert result.prefix(QUESTION) == QUESTION


async def test_model_may_search_again(tmp_path: Path) -> None:
    ask = Say(tool_calls=(("recall", '{"query": "sanding the hull"}'),))
    model = ScriptedModel(['{"relevant":[],"sufficient":false}', ask, oracle(["Ottilie"])])
    async with open_service(tmp_path, model=model, search_limit=1) as service:
        result = await (await filled(service)).ask(QUESTION)
        receipt = await service.receipt(result)
    assert ids(result) == ["hull"]
    assert receipt.recalls == ("sanding the hull",)


@pytest.mark.parametrize(("mode", "calls"), [("always", 1), ("deterministic", 0), ("escalate", 1)])
async def test_modes_decide_whether_the_model_is_called(tmp_path: Path, mode: str, calls: int) -> None:
    model = ScriptedModel([oracle(["kayak rack"])])
    async with open_service(tmp_path, model=model, confident_score=0.5) as service:
        result = await (await filled(service)).ask(QUESTION, mode=mode)
    assert len(model.requests) == calls
    assert "key" in ids(result)


async def test_escalate_skips_the_model_if_search_is_sure(tmp_path: Path) -> None:
    model = ScriptedModel([oracle(["kayak rack"])])
    async with open_service(tmp_path, model=model, mode="escalate", confident_score=0.0, relative_cut=0.0) as service:
        result = await (await filled(service)).ask(QUESTION)
    assert model.requests == []
    assert result.engine is Engine.DETERMINISTIC


@pytest.mark.parametrize(
    "reason", [Reason.MODEL_UNREACHABLE, Reason.MODEL_RATE_LIMITED, Reason.MODEL_ERROR, Reason.MODEL_REFUSED]
)
async def test_failing_model_falls_back_to_search(tmp_path: Path, reason: Reason) -> None:
    async with open_service(tmp_path, model=ScriptedModel([Say(error=reason)])) as service:
        result = await (await filled(service)).ask(QUESTION)
    assert (result.engine, result.reason, result.degraded) == (Engine.DETERMINISTIC, reason, True)
    assert "key" in ids(result)


async def test_model_is_not_called_without_time(tmp_path: Path) -> None:
    model = ScriptedModel([oracle(["kayak rack"])])
    async with open_service(tmp_path, model=model) as service:
        await (await filled(service)).ask("warm up", session_id="other")
        model.requests.clear()
        result = await service.ask(QUESTION, turn="2", deadline_ms=450)
    assert model.requests == []
    assert result.reason is Reason.MODEL_NO_TIME
    assert "key" in ids(result)


async def test_same_turn_returns_the_same_block_unless_the_message_is_new(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        await filled(service)
        first = await service.ask(QUESTION, turn="7")
        again = await service.ask(QUESTION, turn="7")
        other = await service.ask("Who sands the hull of the boat, and when?", turn="7")
    assert again.memory_context == first.memory_context
    assert again.receipt_id == first.receipt_id
    assert ids(other) == ["hull"]


async def test_dry_run_does_not_change_the_ledger(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        await filled(service)
        dry = await service.ask(QUESTION, turn="1", dry_run=True)
        wet = await service.ask(QUESTION, turn="2")
    assert ids(dry) == ids(wet) == ["key"]


@pytest.mark.parametrize("fields", [{"retention": "ephemeral"}, {"visible_blocks": []}])
async def test_memory_that_left_the_context_is_injected_again(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with open_service(tmp_path) as service:
        await filled(service)
        await service.ask(QUESTION, turn="1")
        result = await service.ask(QUESTION, turn="2", **fields)
    assert ids(result) == ["key"]


async def test_visible_block_is_not_repeated(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        await filled(service)
        first = await service.ask(QUESTION, turn="1")
        result = await service.ask(QUESTION, turn="2", visible_blocks=[first.block_id])
    assert (result.outcome, result.reason) == (Outcome.ALL_DUPLICATE, Reason.ALREADY_SHOWN)


async def test_block_respects_the_requests_limit(tmp_path: Path) -> None:
    model = ScriptedModel([oracle(["Lindholm", "Ottilie"])])
    async with open_service(tmp_path, model=model) as service:
        result = await (await filled(service)).ask(QUESTION, render={"max_chars": 260, "format": "plain"})
        receipt = await service.receipt(result)
    assert len(result.memory_context or "") <= 260
    assert CandidateVerdict.OVER_CHARS in {entry.verdict for entry in receipt.considered}


@pytest.mark.parametrize("style", list(BlockFormat))
async def test_every_format_is_rendered(tmp_path: Path, style: BlockFormat) -> None:
    async with open_service(tmp_path) as service:
        result = await (await filled(service)).ask(QUESTION, render={"format": style})
    assert result.memory_context is not None
    assert "kayak rack" in result.memory_context


async def test_search_limit_bounds_the_candidates(tmp_path: Path) -> None:
    async with open_service(tmp_path, search_limit=2, contextual_min_score=-1.0) as service:
        await service.put([fact(f"m{n}", f"The boat-shed key number {n} hangs at hook {n}") for n in range(20)])
        receipt = await service.receipt(await service.ask(QUESTION))
    assert 2 <= len(receipt.considered) <= 4


async def test_users_see_shared_memories_and_their_own(tmp_path: Path) -> None:
    async with open_service(tmp_path, shared_users=["team"], contextual_min_score=-1.0) as service:
        for owner in ("anna", "ben", "team"):
            await service.put([fact(owner, f"The boat-shed key of {owner} hangs left", scope={"user": owner})])
        receipt = await service.receipt(await service.ask(QUESTION, scope={"tenant": "t1", "user": "anna"}))
        nobody = await service.receipt(await service.ask(QUESTION, turn="2"))
    assert {entry.id for entry in receipt.considered} == {"anna", "team"}
    assert {entry.id for entry in nobody.considered} == {"team"}


async def test_message_without_searchable_text_recalls_nothing(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        result = await (await filled(service)).ask("x" * 30_000)
    assert (result.outcome, result.reason) == (Outcome.NONE_RELEVANT, Reason.NOTHING_RECALLED)


@pytest.mark.parametrize("other", [{"user": "bob"}, {}, {"user": "alice", "project": "other"}])
async def test_a_repeated_turn_is_replayed_only_to_the_scope_that_asked(tmp_path: Path, other: dict[str, str]) -> None:
    async with open_service(tmp_path) as service:
        private = fact(
            "m1", "The spare boat-shed key hangs behind the tide table", scope={"user": "alice", "project": "chapel"}
        )
        await service.put([private])
        asker = {"tenant": "t1", "user": "alice", "project": "chapel"}
        first = await service.ask(QUESTION, turn="1", scope=asker)
        assert ids(first) == ["m1"]
        assert ids(await service.ask(QUESTION, turn="1", scope=asker)) == ["m1"]
        second = await service.ask(QUESTION, turn="1", scope={"tenant": "t1", **other})
    assert second.memory_context is None
    assert second.receipt_id != first.receipt_id


@pytest.mark.parametrize("change", ["forgotten", "edited"])
async def test_a_repeated_turn_never_brings_back_what_was_deleted_or_changed(tmp_path: Path, change: str) -> None:
    async with open_service(tmp_path) as service:
        await filled(service)
        first = await service.ask(QUESTION, turn="1")
        assert "key" in ids(first)
        if change == "forgotten":
            await service.memory_service.forget("t1", ["key"])
        else:
            await service.memory_service.update("t1", "key", {"content": "The key was lost in the harbour"})
        again = await service.ask(QUESTION, turn="1")
    old = next(item.text for item in first.items if item.id == "key")
    assert old not in (again.memory_context or "")
