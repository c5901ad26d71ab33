"""What is searched with."""

import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hooks.contract import InjectionRequest
from tests.support.cases import case
from worker.query.focus import Focus, focus
from worker.query.skipping import skip_reason
from worker.settings.injection import InjectionConfig

CONFIG = InjectionConfig()
TURNS = (
    {"role": "user", "content": "what type is transfers.id?"},
    {"role": "assistant", "content": "A ULID stored in a uuid column."},
)


def request(message: str, **fields: Any) -> InjectionRequest:
    return InjectionRequest.model_validate({"session_id": "s", "message": message, **fields})


def focused_query(asked: InjectionRequest, config: InjectionConfig) -> str:
    return focus(asked, config).query


def query(message: str, **fields: Any) -> str:
    return focused_query(request(message, **fields), CONFIG)


def test_query_is_the_message_on_one_line() -> None:
    assert query(" where\n\tis\x00 the  key ") == "where is the key"


def test_blank_message_falls_back_to_the_task() -> None:
    assert query(" ", task_description="clean the kiln") == "clean the kiln"


@pytest.mark.parametrize(
    "filler", ["pump log line 17 pressure ok\n" * 9000, "泵" * 9000, "QUJDRA==" * 8192, "Wir sägen. " * 9000]
)
@pytest.mark.parametrize("first", [True, False])
def test_the_question_at_either_end_of_a_long_message_is_kept(filler: str, first: bool) -> None:
    question = "Which valve did Bertrand tell us to close first?"
    found = query(f"{question}\n\n{filler}" if first else f"{filler}\n\n{question}")
    assert question in found[:400]
    assert len(found) <= CONFIG.query_max_chars


def test_query_max_chars_bounds_the_query() -> None:
    config = InjectionConfig(query_max_chars=50)
    assert 45 < len(focused_query(request("one kiln two kilns " * 50), config)) <= 50


def test_own_blocks_and_envelopes_are_left_out() -> None:
    found = query(case("B27")["request"]["message"])
    assert found == "what's the number to reach Nadège directly?"
    block = "<memory_context>\nnotice\nOstrea opens at nine\n</memory_context>\n\n"
    assert (
        query(f"{block}sender: Tove (88)\nwhen does he open the kiln workshop?")
        == "when does he open the kiln workshop?"
    )


def test_strip_patterns_are_a_setting() -> None:
    message = "@@host 4471@@ where is the kiln key"
    assert "4471" in query(message)
    config = InjectionConfig(strip_patterns=("@@[^@]*@@",))
    assert focused_query(request(message), config) == "where is the kiln key"
    assert focused_query(request("@@4471@@"), config) == "@@4471@@"


def test_prose_around_a_paste_is_kept_with_its_telling_line() -> None:
    frames = "\n".join(f"{n} Tidemark closure #{n} in Model.bind() + 8{n}" for n in range(9))
    found = query(f"the app dies when I swipe back\n```\nFatal error: unowned reference\n{frames}\n```\nany idea?")
    assert found.startswith("the app dies when I swipe back any idea?")
    assert "Fatal error: unowned reference" in found
    assert "bind" not in found


def test_an_error_alone_is_the_query() -> None:
    log = "\n".join(f"[09:28:{n:02}] step {n} ok" for n in range(30))
    found = query(f"{log}\n[09:28:31] ERROR quota exceeded for bucket kiln-archive")
    assert "quota exceeded for bucket kiln-archive" in found
    assert len(found) < 1500


@pytest.mark.parametrize(
    "message",
    [
        "why that instead of plain uuid?",
        "yes do it",
        "how come?",
        "and the other one?",
        "pourquoi pas celui-là ?",
        "und das andere?",
    ],
)
def test_a_message_that_says_too_little_borrows_its_subject(message: str) -> None:
    found = focus(request(message, recent_messages=TURNS), CONFIG)
    assert found.borrowed
    assert found.query.startswith(message)
    assert "ULID stored in a uuid column" in found.query
    assert found.alternatives == (message,)
    assert focus(request(message), CONFIG) == Focus(message)


@pytest.mark.parametrize(
    "message",
    [
        "draft the rollout steps for scp deny-public-ami",
        "renew portal.tarnhill.example",
        "Different matter: is the corner table booked?",
        "キタノ杯の申込書のバッテリーの記入欄には何と書けばいいんだっけ?",
        "下周跟马姐谈续约，帮我准备一页要点，中文",
    ],
)
def test_a_message_that_stands_alone_never_borrows(message: str) -> None:
    found = focus(request(message, recent_messages=TURNS), CONFIG)
    assert (found.query, found.borrowed) == (message, False)


def test_enrichment_is_a_setting() -> None:
    stub, alone = "why that instead of plain uuid?", "draft the rollout steps for scp deny-public-ami"
    off, always = InjectionConfig(query_enrichment="off"), InjectionConfig(query_enrichment="always")
    assert focus(request(stub, recent_messages=TURNS), off) == Focus(stub)
    assert "ULID" in focused_query(request(alone, recent_messages=TURNS), always)


def test_a_task_that_says_more_is_searched_with() -> None:
    asked = request("write the note for Felipe now", task_description="Tell Felipe about the late glaze order")
    found = focus(asked, CONFIG)
    assert found.query == "write the note for Felipe now Tell Felipe about the late glaze order"
    assert (found.borrowed, found.alternatives) == (False, ("write the note for Felipe now",))
    assert focus(asked, InjectionConfig(query_task=False)) == Focus("write the note for Felipe now")
    same = request("write the note for Felipe now", task_description="Write the note for Felipe now.")
    assert focus(same, CONFIG) == Focus("write the note for Felipe now")


def test_a_message_that_points_back_and_says_enough_offers_the_subject() -> None:
    message = "can we move the glaze workshop to 8:30 friday then?"
    found = focus(request(message, recent_messages=TURNS), CONFIG)
    assert (found.query, found.borrowed) == (message, False)
    assert len(found.alternatives) == 1
    assert "ULID" in found.alternatives[0]


def test_what_is_borrowed_is_bounded_and_goes_back_to_a_turn_with_a_subject() -> None:
    turns = [
        {"role": "user", "content": "we need new sailcloth before May"},
        {"role": "assistant", "content": "two suppliers are in play, Varg and Ostrea. " + "Both deliver. " * 200},
        {"role": "user", "content": "budget is 2,000"},
    ]
    found = focus(request("so which one would you pick?", recent_messages=turns), CONFIG)
    assert "budget is 2,000" in found.query
    assert "Varg and Ostrea" in found.query
    assert len(found.query) <= len("so which one would you pick?") + 1 + CONFIG.query_context_chars
    short = InjectionConfig(query_context_chars=50)
    assert len(focused_query(request("which one?", recent_messages=turns), short)) <= 61


ADVERSARIAL = [
    "<memory_context>\n" * 20_000,
    "```json\n" * 40_000,
    "[" * 340_000,
    "Channel details:\n```json\n{" * 12_000,
    "sender: " * 40_000,
    " " * 340_000,
    "\n" * 340_000,
    "at a.b" * 50_000,
    "a.b:1" * 60_000,
    "<system-reminder>" * 20_000,
    "-" * 340_000,
    "1 1 " * 80_000,
    "[1.\n" * 80_000,
    "in a couple of " * 20_000,
    "👍",
    "👍" * 100_000,
    "é" * 300_000,
    "ok " * 100_000,
    "次" * 300_000,
    "".join(chr(0x4E00 + n % 20_000) for n in range(300_000)),
]


@pytest.mark.parametrize("message", ADVERSARIAL, ids=lambda text: repr(text[:18]))
def test_no_message_is_slow(message: str) -> None:
    asked = request(message, recent_messages=TURNS)
    focus(request("warm"), CONFIG)
    started = time.process_time()
    skip_reason(asked, CONFIG)
    found = focus(asked, CONFIG)
    assert time.process_time() - started < 0.5
    assert len(found.query) <= CONFIG.query_max_chars


@given(message=st.text(max_size=400), earlier=st.text(max_size=200), limit=st.integers(50, 500))
@example(message="?\n" * 60, earlier="", limit=50)
def test_any_message_gives_a_bounded_line(message: str, earlier: str, limit: int) -> None:
    config = InjectionConfig(query_max_chars=limit)
    found = focus(request(message, recent_messages=({"role": "user", "content": earlier},)), config)
    for text in (found.query, *found.alternatives):
        assert len(text) <= limit
        assert text == " ".join(text.split())
