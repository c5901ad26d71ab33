"""Names: keys, full names, namesakes, and which names may lead from one memory to another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.domain.memory import Memory
from worker.text.names import bridges, full_names, is_namesake, keyword_text, name_keys, spoken_keys


def about(content: str, *entities: str) -> Memory:
    return Memory(id="m", content=content, entities=entities)


def test_a_name_is_found_by_itself_and_by_its_telling_words() -> None:
    assert name_keys(["Éric van der Berg", "EXP-093", "Q"]) == [
        "eric van der berg",
        "eric",
        "berg",
        "exp 093",
        "exp",
        "q",
    ]


@pytest.mark.parametrize(
    ("message", "entity"),
    [
        ("is ERIC in today?", "Éric van der Berg"),
        ("ask éric van der berg", "Eric van der Berg"),
        ("rerun EXP-093 please", "EXP-093"),
        ("教育委員会に聞いて", "教育委員会"),
    ],
)
def test_a_message_speaks_the_names_in_it(message: str, entity: str) -> None:
    assert set(spoken_keys(message)) & set(name_keys([entity]))


def test_a_message_does_not_speak_other_names() -> None:
    assert not set(spoken_keys("lunch for Mirela")) & set(name_keys(["Oduya", "the lunchroom", "for"]))


@given(st.text(max_size=300))
def test_keys_are_bounded_for_any_text(text: str) -> None:
    assert len(spoken_keys(text)) <= 80 * 5 + 80 * 200


def test_names_are_part_of_what_the_keyword_index_is_given() -> None:
    assert keyword_text(about("She is off on Fridays", "Lorna Stubbs")) == "She is off on Fridays\nLorna Stubbs"


def test_full_names_are_capitalised_words_in_a_row() -> None:
    assert full_names("Order lunch for Mirela Oduya and Jan van der Berg") == {("mirela", "oduya"), ("jan", "berg")}


ASKED = full_names("Order lunch for Mirela Oduya, anything to avoid?")


def test_a_namesake_has_the_first_name_and_another_last_name() -> None:
    assert is_namesake(about("Mirela Stanek is coeliac", "Mirela"), ASKED)
    assert is_namesake(about("She is coeliac", "Mirela", "Mirela Stanek"), ASKED)
    assert not is_namesake(about("Mirela Oduya cannot eat shellfish", "Mirela"), ASKED)
    assert not is_namesake(about("Mirela cannot eat shellfish", "Mirela"), ASKED)
    assert not is_namesake(about("Mirela Stanek sits with Mirela Oduya", "Mirela"), ASKED)
    assert not is_namesake(about("Order Stamps on Monday", "stamps"), full_names("Order Lunch today"))


def test_a_bare_first_name_leads_nowhere() -> None:
    both = ("Mirela Stanek is coeliac", "Mirela Oduya cannot eat shellfish")
    assert not bridges("Mirela", both)
    assert not bridges("Mirela", ("Mirela is coeliac", both[1]))
    assert bridges("Mirela Stanek", both)
    assert bridges("queue", ("The queue was long", "Kiosks for the queue"))
    assert not bridges("🙂", both)
