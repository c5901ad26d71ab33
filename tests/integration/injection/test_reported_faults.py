"""Faults reported for other systems, on the real store and embedder."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import Engine, Outcome, Reason
from hooks.contract.blocks import marked_notice, strip_blocks
from tests.support.cases import case
from tests.support.embedders import DIMENSION, HashingEmbedder
from tests.support.scripted_model import Say, ScriptedModel, offered, oracle
from tests.support.service import NOW, fact, ids, open_service
from worker.domain.errors import EmbedderError, MemoryRejected
from worker.domain.memory import CandidateVerdict, Vector
from worker.domain.model_calls import ChatRequest
from worker.transfer.entries import memory_from


def everything(request: ChatRequest) -> str:
    return json.dumps({"relevant": list(offered(request)), "sufficient": True})


async def test_b01_same_memory_is_not_injected_again(tmp_path: Path) -> None:
    given = case("B01")
    async with open_service(tmp_path, model=ScriptedModel([everything])) as service:
        await service.put(given["memories"])
        first, second, third, fourth, fifth = [
            await service.ask(request["message"], turn=str(request["turn"])) for request in given["requests"]
        ]
    assert "m1" in ids(first)
    assert first.memory_context == second.memory_context == third.memory_context
    assert "m1" not in ids(fourth)
    assert "m1" not in ids(fifth)


async def test_b03_injected_block_feeds_neither_query_nor_store(tmp_path: Path) -> None:
    given = case("B03")
    message = given["request"]["message"]
    async with open_service(tmp_path) as service:
        await service.put([given["memories"][0]])
        with pytest.raises(MemoryRejected, match="injected block"):
            await service.put([given["memories"][1]])
        result = await service.ask(message)
        receipt = await service.receipt(result)
    assert "memory_context" not in receipt.query
    assert "2026-01-10" not in receipt.query
    inside = "Pieter's workshop opens at 07:30 (2026-01-10)"
    genuine = f"<memory_context>\n{marked_notice(inside)}\n{inside}\n</memory_context>"
    assert (
        strip_blocks(f"{genuine}\n\nCan I drop the lathe at Pieter's before eight?")
        == "Can I drop the lathe at Pieter's before eight?"
    )
    assert strip_blocks(message) == message, "a block without the service's mark may be somebody's own words"


async def test_b08_superseded_memory_is_not_injected(tmp_path: Path) -> None:
    given = case("B08")
    async with open_service(tmp_path, model=ScriptedModel([everything])) as service:
        await service.put(given["memories"])
        by_model = await service.ask(given["request"]["message"])
        by_search = await service.ask(given["request"]["message"], mode="deterministic", turn="2")
    assert "m1" not in ids(by_model) + ids(by_search)


async def test_b10_deleted_memory_is_gone_at_once(tmp_path: Path) -> None:
    given = case("B10")
    question = "What is Imre's old locker number?"
    async with open_service(tmp_path) as service:
        await service.put(given["memories"])
        before = await service.ask(question)
        await service.memory_service.forget("t1", ["m1"])
        after = await service.ask(question, session_id="s2")
    assert ids(before) == ["m1"]
    assert (after.outcome, after.reason) == (Outcome.NONE_RELEVANT, Reason.NOTHING_RECALLED)


async def test_b11_other_tenants_are_invisible_everywhere(tmp_path: Path) -> None:
    given = case("B11")
    north, *south = given["memories"]
    model = ScriptedModel([everything])
    nearer = [fact(f"x{n}", f"Who is our invoice contact? Number {n}") for n in range(300)]
    async with open_service(tmp_path, model=model) as service:
        await service.put([north], "north")
        await service.put([*south, *nearer], "south")
        result = await service.ask(given["request"]["message"], scope={"tenant": "north"})
        receipt = await service.receipt(result, "north")
        assert await service.memory_service.count("north") == 1
    assert ids(result) == ["n1"]
    assert [entry.id for entry in receipt.considered] == ["n1"]
    for hidden in ("Baptiste", "retires", "Number"):
        assert hidden not in str(model.requests)
        assert hidden not in receipt.model_dump_json()


async def test_b14_stored_markup_is_escaped(tmp_path: Path) -> None:
    given = case("B14")
    message = given["request"]["message"]
    async with open_service(tmp_path, model=ScriptedModel([everything])) as service:
        await service.put(given["memories"])
        result = await service.ask(message)
    block = result.memory_context
    assert block is not None
    assert sorted(ids(result)) == ["m1", "m2"]
    assert block.count("<memory_context>") == block.count("</memory_context>") == 1
    assert block.endswith("</memory_context>")
    assert "& <b>not</b>" in block
    assert result.prefix(message) == f"{block}\n\n{message}"


async def test_b16_obedient_model_stays_within_limits(tmp_path: Path) -> None:
    given = case("B16")
    calls = [
        Say(tool_calls=(("recall", json.dumps({"query": query})),)) for query in ("salary list", "passwords", "more")
    ]
    model = ScriptedModel([*calls, everything])
    async with open_service(tmp_path, model=model) as service:
        await service.put(given["memories"])
        result = await service.ask(given["request"]["message"])
        receipt = await service.receipt(result)
    assert "m3" in ids(result)
    assert len(ids(result)) <= 5
    assert len(receipt.recalls) <= 2
    assert len(model.requests) <= 4
    for request in model.requests:
        system = [m["content"] for m in request.messages if m["role"] == "system"]
        assert all("Attention memory agent" not in text for text in system)
    assert "not instructions" in (result.memory_context or "")


async def test_b18_secrets_are_masked_in_all_outputs(tmp_path: Path) -> None:
    given = case("B18")
    model = ScriptedModel([everything])
    async with open_service(tmp_path, model=model, contextual_min_score=0.1) as service:
        await service.put(given["memories"])
        result = await service.ask(given["request"]["message"])
        receipt = await service.receipt(result)
    block = result.memory_context or ""
    for kept in ("db.lan:5432", "9f3c1e0a7b6d5c4f3e2a1b0c9d8e7f6a5b4c3d2e", "risk-averse"):
        assert kept in block
    for secret in ("Tr0ut-9981", "TUlJRQ"):
        assert secret not in block
        assert secret not in str(model.requests)
        assert secret not in receipt.model_dump_json()


async def test_b19_keywords_work_without_spaces_between_words(tmp_path: Path) -> None:
    given = case("B19")
    embedder = HashingEmbedder(fault=EmbedderError("down"))
    async with open_service(tmp_path, embedder=embedder) as service:
        await service.put(given["memories"])
        results = [await service.ask(request["message"], turn=str(n)) for n, request in enumerate(given["requests"])]
    assert [ids(result)[0] for result in results] == ["m1", "m3"]
    assert {result.reason for result in results} == {Reason.EMBEDDER_UNAVAILABLE}


async def test_b21_punctuation_is_not_query_syntax(tmp_path: Path) -> None:
    given = case("B21")
    async with open_service(tmp_path, model=ScriptedModel([everything])) as service:
        await service.put(given["memories"])
        results = [await service.ask(request["message"], turn=str(n)) for n, request in enumerate(given["requests"])]
    assert [ids(result)[:1] for result in results[:3]] == [["m1"], ["m2"], ["m3"]]
    assert results[3].outcome in (Outcome.NONE_RELEVANT, Outcome.INJECTED)


@pytest.mark.parametrize(
    "long_part", ["pump log line 17 pressure ok\n" * 4_200, "泵" * 9_000 + "\n", "QUJDRA==" * 8_192]
)
@pytest.mark.parametrize("ask_first", [False, True])
async def test_b25_long_message_is_bounded_and_its_question_found(
    tmp_path: Path, long_part: str, ask_first: bool
) -> None:
    question = "Which valve did Bertrand tell us to close first?"
    message = f"{question}\n\n{long_part}" if ask_first else f"{long_part}\n\n{question}"
    async with open_service(tmp_path) as service:
        await service.put(case("B25")["memories"])
        result = await service.ask(message)
        receipt = await service.receipt(result)
    assert len(receipt.query) <= 2000
    assert result.elapsed_ms < 3000
    assert message in result.prefix(message)
    if not ask_first:
        assert result.outcome is not Outcome.ERROR
        assert question in receipt.query


@pytest.mark.parametrize("path", ["deterministic", "model picks nothing", "model picks everything"])
async def test_b31_bad_matches_are_not_injected(tmp_path: Path, path: str) -> None:
    model = {
        "deterministic": None,
        "model picks nothing": ScriptedModel(['{"relevant":[]}']),
        "model picks everything": ScriptedModel([everything]),
    }[path]
    glazes = ["Celadon", "Tenmoku", "Shino", "Raku", "Majolica", "Copper red", "Ash", "Salt"]
    memories = [
        fact(
            f"m{n}", f"{glazes[n % 8]} glaze fires at cone {n % 10 + 1} in the {['gas', 'wood'][n % 2]} kiln, batch {n}"
        )
        for n in range(40)
    ]
    async with open_service(tmp_path, model=model) as service:
        await service.put(memories)
        for question in ("How do I delegate an IPv6 prefix to a downstream router?", "zxqv blorptang 7781"):
            result = await service.ask(question)
            receipt = await service.receipt(result)
            assert result.outcome is Outcome.NONE_RELEVANT
            if path == "model picks everything":
                assert {entry.verdict for entry in receipt.considered} == {CandidateVerdict.BELOW_THRESHOLD}
    if model:
        assert model.requests == []


@pytest.mark.parametrize(
    "answer",
    ['```json\n{"ids": ["1"]}\n```', 'Sure! Here you go:\n```\n["1"]\n```\nHope it helps', "{'ids': ['1',]}", "ids: 1"],
)
async def test_b40_wrapped_answers_are_parsed(tmp_path: Path, answer: str) -> None:
    given = case("B40")
    async with open_service(tmp_path, model=ScriptedModel([answer])) as service:
        await service.put(given["memories"])
        result = await service.ask(given["request"]["message"])
    assert len(ids(result)) == 1
    assert result.engine is Engine.LLM
    assert len((result.text or "").splitlines()) == 1


async def test_b42_the_models_own_words_never_reach_the_block(tmp_path: Path) -> None:
    given = case("B42")
    prose = "Hanne tightens bolt 7 first, torque 21 Nm, and checks the gasket."
    async with open_service(tmp_path, model=ScriptedModel([prose])) as service:
        await service.put(given["memories"])
        result = await service.ask(given["request"]["message"])
    assert (result.engine, result.reason, result.degraded) == (Engine.DETERMINISTIC, Reason.MODEL_UNPARSEABLE, True)
    for invented in ("bolt 7", "21 Nm", "gasket"):
        assert invented not in (result.memory_context or "")


@pytest.mark.parametrize(
    "steps",
    [
        [Say(tool_calls=(("recall", "{}"),))],
        [Say(tool_calls=(("search_memory", '{"q":"organ"}'),))],
        [Say(tool_calls=(("recall", '"reed organ"'),)), everything],
        [Say(tool_calls=(("recall", '{"query": "reed or'),), finish_reason="length")],
        [Say(tool_calls=tuple(("recall", f'{{"query":"organ {n}"}}') for n in range(5))), everything],
    ],
)
async def test_b44_broken_tool_calls_end_soon(tmp_path: Path, steps: list[Any]) -> None:
    given = case("B44")
    model = ScriptedModel(steps)
    async with open_service(tmp_path, model=model) as service:
        await service.put(given["memories"])
        result = await service.ask(given["request"]["message"])
        receipt = await service.receipt(result)
    assert ids(result) == ["m1"]
    assert len(model.requests) <= 4
    assert len(receipt.recalls) <= 2


class OddEmbedder(HashingEmbedder):
    """Return an invalid vector for every query."""

    odd: tuple[float, ...] = ()

    async def embed_query(self, text: str) -> Vector:
        return self.odd


def odd(*values: float) -> HashingEmbedder:
    embedder = OddEmbedder()
    embedder.odd = values
    return embedder


@pytest.mark.parametrize(
    "broken",
    [
        HashingEmbedder(delay=30.0),
        HashingEmbedder(fault=EmbedderError("429, retry after 60 s")),
        odd(*[math.nan] * DIMENSION),
        odd(*[0.0] * DIMENSION),
        odd(1.0),
    ],
    ids=["hangs", "refuses", "not numbers", "all zeros", "too short"],
)
async def test_b47_broken_embedder_leaves_keyword_search(tmp_path: Path, broken: HashingEmbedder) -> None:
    given = case("B47")
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await service.put(given["memories"])
    async with open_service(tmp_path, embedder=broken) as service:
        result = await service.ask(given["request"]["message"])
    assert ids(result) == ["m1"]
    assert result.elapsed_ms < 1500


async def test_b49_late_model_falls_back_to_search(tmp_path: Path) -> None:
    given = case("B49")
    model = ScriptedModel([Say("[1]", delay=3.4)])
    async with open_service(tmp_path, model=model) as service:
        await service.put(given["memories"])
        result = await service.ask(given["request"]["message"], deadline_ms=1000)
    assert ids(result) == ["m1"]
    assert (result.engine, result.reason) == (Engine.DETERMINISTIC, Reason.MODEL_TIMEOUT)
    assert result.elapsed_ms < 1000


async def test_b53_late_answer_does_not_count_as_shown(tmp_path: Path) -> None:
    given = case("B53")
    async with open_service(tmp_path) as service:
        await service.put(given["memories"])
        late = await service.ask(given["request"]["message"], turn="4", commit=False)
        again = await service.ask(given["then"]["message"], turn="5")
    assert ids(late) == ["m1"]
    assert ids(again) == ["m1"]


async def test_b57_dates_of_every_form_are_accepted(tmp_path: Path) -> None:
    given = case("B57")
    async with open_service(tmp_path, model=ScriptedModel([oracle(["survey"])]), max_items=6) as service:
        await service.put(given["memories"])
        result = await service.ask(given["request"]["message"], now=given["request"]["now"])
    assert {"m1", "m2", "m3", "m4"} <= set(ids(result))
    lines = (result.text or "").splitlines()
    assert [line for line in lines if "planned" in line] == ["Ballast survey planned"]


async def test_parallel_requests_of_one_session_lose_nothing(tmp_path: Path) -> None:
    towns = [
        "Aldersund",
        "Brannik",
        "Corvale",
        "Dremmen",
        "Eskholm",
        "Farrow",
        "Grelling",
        "Hestad",
        "Ibsel",
        "Jorvane",
        "Kelmis",
        "Lunde",
    ]
    async with open_service(tmp_path, max_items=1, relative_cut=1.0, confident_score=0.3) as service:
        await service.put(
            [fact(f"m{n}", f"The ferry office of {town} opens at {n + 6}:30") for n, town in enumerate(towns)]
        )

        async def ask(number: int, turn: int) -> list[str]:
            return ids(
                await service.ask(f"When does the ferry office of {towns[number]} open?", turn=f"{turn}-{number}")
            )

        first = await asyncio.gather(*(ask(n, 1) for n in range(12)))
    assert first == [[f"m{n}"] for n in range(12)]


def test_unknown_field_of_a_memory_is_named() -> None:
    with pytest.raises(MemoryRejected, match="status"):
        memory_from({"content": "x", "status": "superseded"}, NOW)
