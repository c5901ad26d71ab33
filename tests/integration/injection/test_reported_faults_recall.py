"""Reported faults of retrieval: staleness, scope, deletion, homonyms, follow-ups, scripts and special characters."""

import json
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import ItemSource, Outcome
from tests.support.cases import case
from tests.support.embedders import HashingEmbedder
from tests.support.scripted_model import ScriptedModel, offered, oracle
from tests.support.service import fact, ids, open_service
from worker.domain.errors import EmbedderError
from worker.domain.model_calls import ChatRequest

PATHS = pytest.mark.parametrize("by_model", [True, False], ids=["model", "deterministic"])
EVERYTHING_PINNED = {"ambient_enabled": True, "pinned_types": ["fact", "goal"], "pinned_limit": 10}


def everything(request: ChatRequest) -> str:
    return json.dumps({"relevant": list(offered(request)), "sufficient": True})


def model(by_model: bool) -> ScriptedModel | None:
    return ScriptedModel([everything]) if by_model else None


@PATHS
@pytest.mark.parametrize("settings", [{}, EVERYTHING_PINNED], ids=["plain", "pinned"])
async def test_b08_a_correction_replaces_the_corrected_memory(
    tmp_path: Path, by_model: bool, settings: dict[str, Any]
) -> None:
    given = case("B08")
    async with open_service(tmp_path, model=model(by_model), **settings) as service:
        await service.put(given["memories"])
        await service.put([fact("m3", "The pump was bought in Tromsø", relations=[link("m1")])])
        result = await service.ask(given["request"]["message"])
    assert "m2" in ids(result)
    assert "m1" not in ids(result)


def link(target: str) -> dict[str, str]:
    return {"kind": "related_to", "target": target}


@PATHS
async def test_b10_deleted_and_expired_memories_are_gone(tmp_path: Path, by_model: bool) -> None:
    given = case("B10")
    question = "What is Imre's old locker number?"
    async with open_service(tmp_path, model=model(by_model), **EVERYTHING_PINNED) as service:
        await service.put(given["memories"])
        await service.put([fact("seed", "Imre's lockers are in the east hall", importance=0.9, relations=[link("m1")])])
        before = await service.ask(question)
        await service.put([fact("over", "Imre had locker 215", valid_until="2026-02-01T00:00:00Z")])
        await service.memory_service.forget("t1", ["m1"])
        after = await service.ask(question, session_id="s2")
        receipt = await service.receipt(after)
    assert "m1" in ids(before)
    assert ids(after) == ["seed"]
    texts = " ".join([*(memory.text for memory in receipt.considered), receipt.request.message, receipt.query])
    assert "214" not in texts
    assert "215" not in texts
    assert not {"m1", "over"} & {memory.id for memory in receipt.considered}


@PATHS
async def test_b11_pins_and_links_stay_within_the_tenant(tmp_path: Path, by_model: bool) -> None:
    given = case("B11")
    north, *south = given["memories"]
    scripted = model(by_model)
    settings = {"ambient_enabled": True, "pinned_types": ["goal", "fact"], "graph_seed_threshold": 0.0}
    async with open_service(tmp_path, model=scripted, **settings) as service:
        await service.put([north], "north")
        await service.put(south, "south")
        await service.put([fact("n2", "Solveig signs", relations=[link("s1")], entities=["Baptiste"])], "north")
        await service.put([fact("n3", "Not for everybody", scope={"user": "other"}, relations=[link("n1")])], "north")
        result = await service.ask(given["request"]["message"], scope={"tenant": "north"})
        receipt = await service.receipt(result, "north")
    assert "n1" in ids(result)
    assert set(ids(result)) <= {"n1", "n2"}
    assert {entry.id for entry in receipt.considered} <= {"n1", "n2"}
    seen = receipt.model_dump_json() + str(scripted.requests if scripted else "")
    for hidden in ("ext 77", "retires", "Not for everybody"):
        assert hidden not in seen


@PATHS
async def test_b61_namesakes_are_dropped(tmp_path: Path, by_model: bool) -> None:
    given = case("B61")
    async with open_service(tmp_path, model=model(by_model), graph_seed_threshold=0.3) as service:
        await service.put(given["memories"])
        result = await service.ask(given["request"]["message"])
        receipt = await service.receipt(result)
        unclear = await service.ask("Order lunch for Mirela, anything to avoid?", session_id="s2", mode="deterministic")
    assert ids(result) == ["b1"]
    verdicts = {entry.id: entry.verdict.value for entry in receipt.considered}
    assert (verdicts["a1"], verdicts["a2"]) == ("namesake", "namesake")
    (chosen,) = [entry for entry in receipt.considered if entry.id == "b1"]
    assert {"message", "named"} <= {search_kind.value for search_kind in chosen.legs}
    assert chosen.relevance is not None
    assert all("Mirela Stanek" in item.text or "Mirela Oduya" in item.text for item in unclear.items)


@PATHS
async def test_b29_a_vague_follow_up_recalls_the_topic_under_discussion(tmp_path: Path, by_model: bool) -> None:
    given = case("B29")
    turns = [dict(zip(("role", "content"), line.split(": ", 1), strict=True)) for line in given["history"]]
    scripted = ScriptedModel([oracle(["Sailcloth"]), oracle(["corner"])]) if by_model else None
    async with open_service(tmp_path, model=scripted, confident_score=0.3) as service:
        await service.put(given["memories"])
        result = await service.ask(given["request"]["message"], turn="4", recent_messages=turns)
        other = await service.ask("Different matter: is the corner table booked?", turn="5", recent_messages=turns)
    assert ids(result) == ["m1"]
    assert "m3" in ids(other)
    assert "m1" not in ids(other)


@pytest.mark.parametrize("number", [0, 1])
async def test_b19_japanese_is_found_by_keywords(tmp_path: Path, number: int) -> None:
    given = case("B19")
    down = HashingEmbedder(fault=EmbedderError("down"))
    async with open_service(tmp_path, embedder=down) as service:
        await service.put(given["memories"])
        result = await service.ask(given["requests"][number]["message"])
    assert ids(result) == [["m1"], ["m3"]][number]
    assert result.degraded


@pytest.mark.parametrize("number", range(4))
async def test_b21_special_characters_are_not_query_syntax(tmp_path: Path, number: int) -> None:
    given = case("B21")
    expected = [["m1"], ["m2"], ["m3"], []][number]
    settings = {"recall_budget": "high", "confident_score": 0.2, "graph_seed_threshold": 0.0}
    async with open_service(tmp_path, **settings) as service:
        await service.put(given["memories"])
        result = await service.ask(given["requests"][number]["message"])
    assert result.outcome is (Outcome.INJECTED if expected else Outcome.NONE_RELEVANT)
    assert ids(result)[:1] == expected


async def test_pinned_memories_are_separate_and_leave_room(tmp_path: Path) -> None:
    async with open_service(
        tmp_path, ambient_enabled=True, pinned_types=["todo"], pinned_limit=2, max_total=3
    ) as service:
        todos = [fact(f"t{n}", f"Repaint hull number {n}", type="todo") for n in range(5)]
        await service.put([*todos, fact("m1", "The ferry to Hestad leaves at 6:40")])
        asked = await service.ask("When does the ferry to Hestad leave?")
        idle = await service.ask("zebra crossing paint", session_id="s2")
    assert {item.id: item.source for item in asked.items}["m1"] is ItemSource.CONTEXTUAL
    assert sum(item.source is ItemSource.PINNED for item in asked.items) == 2
    assert {item.source for item in idle.items} == {ItemSource.PINNED}
