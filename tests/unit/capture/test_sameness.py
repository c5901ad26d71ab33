"""What says the same as something stored or rejected, and what differs in a number, a name or a negation."""

import pytest

from worker.capture.fingerprints import is_refused, refusal_of
from worker.capture.nearby import says_same
from worker.domain.memory import Memory, MemoryScope

SALT = "salt"


def memory(content: str, user: str | None = "hana") -> Memory:
    return Memory(id="m", content=content, scope=MemoryScope(user=user))


@pytest.mark.parametrize(
    ("new", "known", "cosine"),
    [
        ("My sister Mia lives in Zürich.", "my sister mia lives in zürich", None),
        ("Mia lives in Zürich", "My sister Mia lives in Zürich since May", 0.7),
        ("the backup runs at 4 each night", "each night the backup runs at 4", 0.95),
    ],
)
def test_the_same_again(new: str, known: str, cosine: float | None) -> None:
    assert says_same(new, known, cosine)


@pytest.mark.parametrize(
    ("new", "known"),
    [
        ("the backup runs at 5 each night", "the backup runs at 4 each night"),
        ("takes no oat milk", "takes oat milk"),
        ("my dentist is Dr. Weber", "my dentist is Dr. Meier"),
        ("my sister Mia lives in Zürich with Tom", "my sister Mia lives in Zürich"),
    ],
)
def test_what_differs_is_not_the_same(new: str, known: str) -> None:
    assert not says_same(new, known, 0.97)


@pytest.mark.parametrize("again", ["my sister Mia lives in Zürich", "In Zürich lives my sister Mia!"])
def test_what_was_rejected_is_recognized(again: str) -> None:
    refused = refusal_of(memory("My sister Mia lives in Zürich."), SALT, lasting=True)
    assert "zürich" not in refused.model_dump_json().casefold()
    assert is_refused(memory(again), [refused], SALT, only_lasting=True)


@pytest.mark.parametrize(
    "other", [memory("my brother Tom lives in Zürich"), memory("my sister Mia lives in Zürich", "bo")]
)
def test_others_are_not_refused(other: Memory) -> None:
    refused = refusal_of(memory("my sister Mia lives in Zürich"), SALT, lasting=True)
    assert not is_refused(other, [refused], SALT, only_lasting=True)


def test_a_mere_deletion_only_stops_captures() -> None:
    refused = refusal_of(memory("my sister Mia lives in Zürich"), SALT, lasting=False)
    again = memory("my sister Mia lives in Zürich")
    assert is_refused(again, [refused], SALT, only_lasting=False)
    assert not is_refused(again, [refused], SALT, only_lasting=True)
