"""Redaction of receipts."""

import time
from datetime import UTC, datetime

import pytest

from hooks.contract import InjectionRequest, Outcome
from worker.domain.kinds import ReceiptKeep
from worker.domain.memory import CandidateVerdict, MemoryType
from worker.domain.model_calls import ModelExchange
from worker.domain.receipt import ConsideredMemory, Receipt
from worker.injection.redaction import MOST_CHARS, redacted, without_secrets
from worker.text.masking import mask_secrets

SECRET = "hunter22-secret"
PLAIN = "gate"


def receipt() -> Receipt:
    request = InjectionRequest.model_validate(
        {
            "session_id": "s1",
            "message": f"the gate, password: {SECRET}",
            "task_description": f"open the gate; api_key={SECRET}",
            "recent_messages": [{"role": "user", "content": f"gate token: postgres://a:{SECRET}@db/x"}],
            "scope": {"tenant": "t1", "user": "oscar", "project": "gate", "channel": "#gate"},
        }
    )
    considered = ConsideredMemory(
        id="m1",
        type=MemoryType.FACT,
        text=f"gate password: {SECRET}",
        version=3,
        score=0.7,
        verdict=CandidateVerdict.CHOSEN,
    )
    return Receipt(
        id="r1",
        at=datetime(2026, 3, 1, tzinfo=UTC),
        request=request,
        config={"max_items": 5},
        query=f"gate password: {SECRET}",
        recalls=(f"gate secret: {SECRET}",),
        outcome=Outcome.INJECTED,
        considered=(considered,),
        exchanges=(ModelExchange(f"gate: [1] password: {SECRET}", f"api_key={SECRET}"),),
        chosen=("m1",),
        elapsed_ms=12.5,
    )


@pytest.mark.parametrize("keep", list(ReceiptKeep))
def test_no_receipt_keeps_a_secret(keep: ReceiptKeep) -> None:
    assert SECRET not in redacted(receipt(), keep).model_dump_json()


def test_everything_else_is_unchanged() -> None:
    found = redacted(receipt(), ReceiptKeep.EVERYTHING)
    assert found.kept is ReceiptKeep.EVERYTHING
    assert found.request.message == "the gate, password: [masked]"
    assert found.considered[0].text == "gate password: [masked]"
    assert found.exchanges == (ModelExchange("gate: [1] password: [masked]", "api_key=[masked]"),)
    assert found.request.scope == receipt().request.scope
    assert (found.config, found.chosen, found.elapsed_ms) == ({"max_items": 5}, ("m1",), 12.5)


def test_without_texts_ids_scores_and_settings_stay() -> None:
    found = redacted(receipt(), ReceiptKeep.NO_TEXTS)
    said = [found.request.message, found.request.task_description, found.query, *found.recalls]
    assert not any(said)
    assert found.request.recent_messages == ()
    assert [one.text for one in found.considered] == [""]
    assert found.exchanges == ()
    assert (found.considered[0].id, found.considered[0].version, found.considered[0].verdict) == ("m1", 3, "chosen")
    assert (found.request.scope.user, found.config) == ("oscar", {"max_items": 5})
    assert found.kept is ReceiptKeep.NO_TEXTS


def test_numbers_only_keeps_no_names() -> None:
    found = redacted(receipt(), ReceiptKeep.NUMBERS)
    written = found.model_dump_json()
    assert PLAIN not in written
    assert "oscar" not in written
    assert (found.request.session_id, found.request.turn_id) == ("s1", found.request.turn_id)
    assert (found.request.scope.tenant, found.config, found.elapsed_ms) == ("t1", {}, 12.5)
    assert Receipt.model_validate_json(written) == found


def test_a_very_long_text_is_cut_without_leaking_a_secret() -> None:
    half = MOST_CHARS // 2
    text = "a b " * (half // 4 - 5) + f" password: {SECRET} " + "c d " * MOST_CHARS + "the end"
    found = without_secrets(text)
    assert len(found) <= MOST_CHARS + 10
    assert found.endswith("the end")
    assert SECRET[:6] not in found


def test_masking_takes_linear_time() -> None:
    def seconds(text: str) -> float:
        started = time.thread_time()
        mask_secrets.__wrapped__(text)
        return time.thread_time() - started

    for part in ("a", "a:/", "a://b:", "https://x "):
        assert seconds(part * (200_000 // len(part))) < 2.0, part
