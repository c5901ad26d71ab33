"""Texts of deleted memories are found in stored receipts, whatever their ids are."""

import time

import pytest

from tests.support.receipts import showing
from worker.domain.model_calls import ModelExchange
from worker.domain.receipt import Receipt, erased_json


@pytest.mark.parametrize("odd", ["m1", 'a"b', "back\\slash", "\u00e9\U0001f600", "\n\x01", '"id":"m2"', " "])
def test_the_texts_of_any_id_are_found(odd: str) -> None:
    asked = (ModelExchange("[1] text of m2", "1"),)
    receipt = showing(1, "m2", odd).model_copy(update={"exchanges": asked})
    erased = erased_json(receipt.model_dump_json().encode(), {odd})
    assert erased is not None
    found = Receipt.model_validate_json(erased)
    assert [(one.text, one.deleted) for one in found.considered] == [("text of m2", False), ("", True)]
    assert found.block == "text of m2"
    assert found.exchanges == (), "a prompt shows every candidate"
    assert erased_json(erased.encode(), {odd}) is None


def test_others_stay_as_they_are() -> None:
    stored = showing(1, "m1", "m2").model_dump_json().encode()
    assert erased_json(stored, {"m", "text of m1", "r"}) is None
    assert erased_json(b"not a receipt", {"m1"}) is None
    assert erased_json(b'{"id":"m1"}', {"m1"}) is None


def test_many_ids_are_looked_for_at_once() -> None:
    receipt = showing(1, *(f"m{number}" for number in range(50)))
    stored = receipt.model_copy(update={"query": "x" * 30_000}).model_dump_json().encode()
    gone = {f"gone{number}" for number in range(500)}
    started = time.thread_time()
    assert all(erased_json(stored, gone) is None for _ in range(20))
    assert time.thread_time() - started < 1.0
