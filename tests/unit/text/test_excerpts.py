"""Shortening of texts: never half a grapheme, and around what was asked for."""

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.text.excerpts import (
    LONG_CHARS,
    LONGEST_GRAPHEME,
    MOST_PIECES,
    PIECE_CHARS,
    ends,
    excerpt,
    head,
    pieces,
    shortened,
    tail,
)
from worker.text.rendering import flatten, shown_text
from worker.triage.prompt_files import clip_middle

FAMILY = "👨‍👩‍👧‍👦"
FLAG = "🇩🇪"
E_ACUTE = "e\u0301"
NI = "नि"
FILLER = "The planning meeting covered the booking page, the tariffs and the colour of the buttons. "

SIGNS = [FAMILY, FLAG, E_ACUTE, NI, "한", "\u1112\u1161\u11ab", "👍🏽", "a", " "]
texts = st.lists(st.one_of(st.sampled_from(SIGNS), st.characters()), max_size=40).map("".join)


def graphemes(text: str) -> list[str]:
    return regex.findall(r"\X", text)


@given(texts, st.integers(0, 40))
@settings(max_examples=300, deadline=None)
def test_a_cut_never_halves_a_grapheme(text: str, limit: int) -> None:
    first, last, whole = head(text, limit), tail(text, limit), graphemes(text)
    assert len(first) <= limit
    assert len(last) <= limit
    if max(map(len, whole), default=0) < LONGEST_GRAPHEME:
        assert graphemes(first) == whole[: len(graphemes(first))]
        assert graphemes(last) == whole[len(whole) - len(graphemes(last)) :]


@pytest.mark.parametrize("sign", [FAMILY, FLAG, E_ACUTE, NI, "👍🏽"])
@pytest.mark.parametrize("limit", range(10, 22))
def test_every_way_of_shortening_keeps_signs_whole(sign: str, limit: int) -> None:
    text = f"abcdefgh{sign * 20}"
    for short in (shortened(text, limit), flatten(text, limit), shown_text(text, limit, mask=True)):
        assert len(short) <= limit
        assert short == "abcdefgh" + sign * short.count(sign) + "…"
    middle = clip_middle(sign * 40, 4 * len(sign) * 3)
    assert middle.replace(" … ", "") == sign * middle.count(sign)
    both = ends(sign * 400, 101, 102)
    assert both.replace("\n", "") == sign * both.count(sign)
    assert len(both) <= 203


def test_the_part_that_was_asked_for_is_kept() -> None:
    answer = "The alarm code of the boat shed is kept in the red binder."
    text = FILLER * 20 + answer + " " + FILLER * 20
    part = excerpt(text, 300, "Where is the alarm code for the boat shed?")
    assert answer in part
    assert part.startswith((f"…{FILLER[:20]}", f"…{answer}"))
    assert part.endswith("…")
    assert len(part) <= 300
    assert excerpt(FILLER * 20 + answer, 300, "alarm code").endswith(answer)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (
            "会議では予約画面と料金とボタンの色について話した。" * 40 + "倉庫の暗証番号は赤い手帳にある。",
            "倉庫の暗証番号は?",
        ),
        (FILLER * 12 + "Der Schlüssel zum Bootshaus hängt im Flur.", "Wo ist der SCHLÜSSEL vom bootshaus?"),
        (FILLER * 12 + "Invoices go to Portwell.", "who gets the invoice?"),
    ],
)
def test_other_scripts_cases_and_endings_are_found(text: str, query: str) -> None:
    assert excerpt(text, 120, query).endswith(text[-20:])


def test_without_anything_that_was_asked_for_the_beginning_is_kept() -> None:
    text = FILLER * 20
    assert excerpt(text, 100, "") == excerpt(text, 100, "zebra crossing") == shortened(text, 100)
    assert excerpt(text, 100, "planning meeting").startswith("The planning meeting")
    assert excerpt("short", 100, "query") == "short"


def test_a_beginning_that_says_as_much_wins() -> None:
    text = "The boat shed is locked. " + FILLER * 20 + "The boat shed is open."
    assert excerpt(text, 100, "Is the boat shed locked?").startswith("The boat shed is locked.")


def test_a_long_text_becomes_pieces_that_say_all_of_it() -> None:
    text = FILLER * 40
    parts = pieces(text)
    assert " ".join(parts) == text.strip()
    assert max(map(len, parts)) <= PIECE_CHARS
    assert all(part.startswith("The planning") and part.endswith(".") for part in parts)
    assert pieces("x" * LONG_CHARS) == ()


@given(st.text(min_size=LONG_CHARS + 1, max_size=3 * LONG_CHARS))
@settings(max_examples=50, deadline=None)
def test_any_long_text_has_bounded_pieces(text: str) -> None:
    parts = pieces(text)
    assert all(0 < len(part) <= PIECE_CHARS for part in parts)
    assert len(parts) <= MOST_PIECES
    assert "".join("".join(parts).split()) == "".join(text.split())
