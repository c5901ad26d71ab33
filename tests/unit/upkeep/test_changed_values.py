"""Clear changes of a value are told from texts about two things."""

import pytest

from worker.domain.memory import Memory, MemoryType
from worker.upkeep.changed_values import is_changed_value, wording_of

CHANGED = [
    ("The nightly backup runs at 4", "The nightly backup runs at 5"),
    ("We release on Thursdays", "We release on Tuesdays"),
    ("Mia's flat number is 12", "mia's flat number is 14"),
    ("Das Backup läuft um 4 Uhr", "Das Backup läuft um 16:30 Uhr"),
    ("Le loyer est de 1200 francs", "Le loyer est de 1300 francs"),
    ("週報は3日に出す", "週報は4日に出す"),
    ("Deploy port: 8080", "Deploy port: 9090"),
]
OTHERS = [
    ("Shelf 3 holds nuts", "Shelf 4 holds nuts"),
    ("Fixed bug 1234", "Fixed bug 1235"),
    ("Tom lives in Bern", "Tom lives in Oslo"),
    ("The backup runs at 4", "The report runs at 5"),
    ("The backup runs at 4 and the report at 5", "The backup runs at 5 and the report at 5"),
    ("4", "5"),
]


@pytest.mark.parametrize(("old", "new"), CHANGED)
def test_another_value_for_the_same(old: str, new: str) -> None:
    assert is_changed_value(new, old)
    first, second = (wording_of(Memory(id="m", content=text)) for text in (old, new))
    assert first == second is not None


@pytest.mark.parametrize(("old", "new"), OTHERS)
def test_two_things_or_no_value(old: str, new: str) -> None:
    assert not is_changed_value(new, old)


def test_what_happened_once_has_no_value_that_changes() -> None:
    text = "The deployment began at 4"
    assert wording_of(Memory(id="m", content=text)) is not None
    assert wording_of(Memory(id="m", content=text, type=MemoryType.EVENT)) is None
    assert (
        wording_of(Memory.model_validate({"id": "m", "content": text, "occurred_at": "2026-01-01T00:00:00Z"})) is None
    )
