"""How words of a message match those of a memory, and what a message asks for."""

import time

import pytest

from worker.relevance.matching import matches, similarity, word_of
from worker.relevance.questions import answers

OTHER = "The bakery on the corner closes at noon."


@pytest.mark.parametrize(
    ("message", "memory"),
    [
        ("how do we flush the reedis cache", "Flush the Redis cache with FLUSHDB."),
        ("is GHA down again?", "Deployments run on GitHub Actions."),
        ("pg dump fails", "Postgres dumps go to the backup bucket."),
        ("what is the TLA of this?", "Three Letter Agency is our nickname."),
        ("whats the wifi code", "Wi-Fi at home: the code is on the fridge."),
        ("react js build", "The ReactJS storefront is built with Vite."),
        ("invoicing for Dana", "Invoices for Dana go out on Fridays."),
    ],
    ids=["typo", "abbreviation", "short form", "initials", "joined", "split", "inflected"],
)
def test_a_word_is_found_in_another_form(message: str, memory: str) -> None:
    found = matches(message, [OTHER, memory])
    assert found["w_cover"][1] > found["w_cover"][0]
    assert found["w_rank"].tolist() == [1.0, 0.0]


def test_other_forms_are_told_from_the_word_itself() -> None:
    literal, inflected = matches("the invoice", ["an invoice came", "two invoices came"])["w_loose"].tolist()
    assert literal == 0.0
    assert 0.5 <= inflected < 1.0


def test_unlike_words_do_not_match() -> None:
    assert similarity(word_of("bread"), word_of("deploy")) < 0.5


def test_a_message_of_function_words_matches_nothing() -> None:
    assert matches("who is it?", [OTHER])["w_cover"].tolist() == [0.0]


@pytest.mark.parametrize("message", ["who is mia?", "ask Sue", "Is Will here?"])
def test_a_name_that_is_a_function_word_elsewhere_is_matched(message: str) -> None:
    assert matches(message, ["Mia, Sue and Will are in", OTHER])["w_best"].argmax() == 0
    assert matches(message, ["Mia, Sue and Will are in", OTHER])["w_best"][0] > 0.0


def test_names_missing_and_extra_are_counted() -> None:
    found = matches("ask Mia about Zurich", ["so Mia lives in Bern", "ask Mia in Zurich"])
    assert found["w_names_missing"].tolist() == [1.0, 0.0]
    assert found["w_names_extra"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("message", "kind", "holds", "lacks"),
    [
        ("Where does Mia live?", "where", "She lives in Zurich.", "Likes green tea."),
        ("When is the dentist?", "when", "The dentist is on Monday.", "The dentist is friendly."),
        ("Wer ist unser Vermieter?", "who", "Vermieter: Herr Brandt", "die miete ist hoch"),
        ("How many seats do we have?", "amount", "There are 12 seats.", "The seats are blue."),
        ("May I deploy on Friday?", "may", "Never deploy on Fridays.", "Deploys take a while."),
    ],
)
def test_a_question_is_compared_with_what_a_memory_holds(message: str, kind: str, holds: str, lacks: str) -> None:
    found = answers(message, [holds, lacks])
    assert found[f"q_{kind}"].tolist() == [1.0, 1.0]
    assert found[f"a_{kind}"].tolist() == [1.0, -1.0]


def test_a_statement_asks_for_nothing() -> None:
    found = answers("Thanks.", [OTHER])
    assert {name: value.tolist() for name, value in found.items() if value.any()} == {}


def test_long_texts_are_bounded() -> None:
    message, memories = "deploy staging rollback " * 5_000, ["postgres upgrade window " * 5_000] * 30
    begun = time.thread_time()
    matches(message, memories)
    assert time.thread_time() - begun < 2.0
