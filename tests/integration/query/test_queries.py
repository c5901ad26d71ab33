"""What a request asks, with a real store: reported faults about envelopes, follow-ups and long messages."""

from pathlib import Path

import pytest

from hooks.contract import Outcome, Reason
from tests.support.cases import case
from tests.support.service import fact, ids, open_service


async def test_b27_an_envelope_does_not_drown_the_question(tmp_path: Path) -> None:
    given = case("B27")
    message = given["request"]["message"]
    async with open_service(tmp_path) as service:
        await service.put(given["memories"])
        result = await service.ask(message)
        receipt = await service.receipt(result)
    assert receipt.considered[0].id == "m1"
    assert "m2" not in ids(result)
    assert "Nadège" in receipt.query
    assert "message_id" not in receipt.query
    assert result.prefix(message).endswith(message)


async def test_b29_a_vague_follow_up_is_about_the_turns_before(tmp_path: Path) -> None:
    given = case("B29")
    turns = [dict(zip(("role", "content"), turn.split(": ", 1), strict=True)) for turn in given["history"]]
    question = given["request"]["message"]
    async with open_service(tmp_path) as service:
        await service.put(given["memories"])
        vague = await service.ask(question, recent_messages=turns)
        receipt = await service.receipt(vague)
        turns += [{"role": "user", "content": question}, {"role": "assistant", "content": "Varg, it is on time."}]
        other = await service.ask("Different matter: is the corner table booked?", turn="5", recent_messages=turns)
    assert receipt.considered[0].id == "m1"
    assert not {"m2", "m3"} & set(ids(vague))
    assert ids(other) == ["m3"]


@pytest.mark.parametrize("first", [True, False])
async def test_b25_the_question_of_a_long_message_finds_its_memory(tmp_path: Path, first: bool) -> None:
    given = case("B25")
    question = "Which valve did Bertrand tell us to close first?"
    log = "\n".join(f"2026-02-03T08:{n % 60:02}:11 pump{n % 7} INFO pressure {n * 37 % 991} ok" for n in range(7000))
    async with open_service(tmp_path) as service:
        await service.put(given["memories"])
        result = await service.ask(f"{question}\n{log}" if first else f"{log}\n{question}")
    assert ids(result)[0] == "m1"


async def test_an_error_that_was_pasted_finds_what_is_known_about_it(tmp_path: Path) -> None:
    memories = [
        fact("m1", "Quota exceeded on bucket kiln-archive means the nightly snapshots were not pruned; run prune-kiln"),
        fact("m2", "Log rotation on the pump host is weekly"),
    ]
    log = "\n".join(f"[09:28:{n:02}] upload part {n} ok" for n in range(40))
    async with open_service(tmp_path) as service:
        await service.put(memories)
        result = await service.ask(f"{log}\n[09:28:41] ERROR quota exceeded for bucket kiln-archive")
    assert ids(result) == ["m1"]


async def test_small_talk_is_answered_without_a_search(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        await service.put([fact("m1", "Thanks are due to Ostrea for the kiln")])
        result = await service.ask("ok thanks 🙏")
        receipt = await service.receipt(result)
    assert (result.outcome, result.reason) == (Outcome.SKIPPED, Reason.ACKNOWLEDGEMENT)
    assert receipt.considered == ()
