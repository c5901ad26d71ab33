"""A receipt stays small, however long its request was."""

import pytest

from hooks.contract import RecentMessage
from tests.support.receipts import showing
from worker.domain.model_calls import ModelExchange
from worker.domain.receipt import Receipt
from worker.injection.receipt import MOST_BYTES, within_size

LONG = 20_000


def long_receipt(character: str, **fields: object) -> Receipt:
    text = character * LONG
    receipt = showing(1, *(f"m{number}" for number in range(60)))
    recent = tuple(RecentMessage(role="user", content=text) for _ in range(20))
    request = {"message": text, "task_description": text, "recent_messages": recent}
    considered = tuple(one.model_copy(update={"text": text}) for one in receipt.considered)
    update = {"request": receipt.request.model_copy(update=request), "query": text, "considered": considered}
    return receipt.model_copy(update={**update, **fields})


@pytest.mark.parametrize("character", ["a", "\u00e9", "\u6f22", "\U0001f389", '"', "\x01"])
@pytest.mark.parametrize("everywhere", [False, True], ids=["texts", "everywhere"])
def test_a_receipt_is_cut_to_its_size(character: str, everywhere: bool) -> None:
    text = character * LONG
    more = {"recalls": (text, text), "notes": (text,), "config": {"strip_patterns": [text]}} if everywhere else {}
    found = within_size(long_receipt(character, **more))
    written = found.model_dump_json()
    assert len(written.encode()) <= MOST_BYTES
    assert Receipt.model_validate_json(written) == found
    assert found.request.message.startswith(character * 100)


def test_a_receipt_of_usual_size_stays_whole() -> None:
    receipt = showing(1, "m1", "m2")
    assert within_size(receipt) is receipt


def test_texts_of_calls_are_left_out_before_anything_else() -> None:
    receipt = showing(1, "m1", "m2")
    found = within_size(receipt.model_copy(update={"exchanges": (ModelExchange("a" * MOST_BYTES, "1"),)}))
    assert found.notes == ("the texts of 1 call of models were too long to be kept",)
    assert found.model_copy(update={"notes": ()}) == receipt


def test_texts_are_cut_before_memories_are_left_out() -> None:
    found = within_size(long_receipt("a"))
    assert len(found.considered) == 60
    assert found.config == long_receipt("a").config
