"""The phrase files, and what is counted with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.domain.kinds import Language
from worker.query.small_talk import small_talk
from worker.text.lexicon import COMMON, PhraseKind, content_tokens, fold, lexicon, phrase_file, tokens, wording

ALL = lexicon(tuple(Language))
KEYS = {
    "greeting",
    "addressed",
    "thanks",
    "acknowledgement",
    "assent",
    "go_ahead",
    "filler",
    "force",
    "stop_words",
    "openers",
    "references",
}


@pytest.mark.parametrize("name", [COMMON, *Language])
def test_every_language_has_every_kind_of_phrase(name: str) -> None:
    table = phrase_file(name)
    assert set(table) - {"time", "capture"} == KEYS
    assert all(tokens(phrase) for key in KEYS - {"greeting"} for phrase in table[key])
    if name != COMMON:
        assert len(table["greeting"]) >= 20
        assert {"ago", "weekday", "date", "month"} <= set(table["time"]["rules"])
        assert [len(table["time"][key]) for key in ("months", "weekdays")] == [12, 7]


@pytest.mark.parametrize("language", Language)
def test_every_phrase_is_small_talk_in_its_language(language: Language) -> None:
    known, table = lexicon((language,)), phrase_file(language)
    for kind in (PhraseKind.GREETING, PhraseKind.THANKS, PhraseKind.ACKNOWLEDGEMENT, PhraseKind.GO_AHEAD):
        missed = [phrase for phrase in table[kind] if not small_talk(phrase.replace("#", "10"), known)]
        assert not missed


@given(st.text(max_size=80))
def test_folding_keeps_positions(text: str) -> None:
    assert len(fold(text)) == len(text) or text.isascii()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("why that instead of plain uuid?", 2),
        ("and the other one?", 0),
        ("Different matter: is the corner table booked?", 5),
        ("pourquoi pas celui-là ?", 0),
        ("und das andere?", 0),
        ("精算の締め切りはいつ", 2),
        ("为什么是这个", 0),
    ],
)
def test_content_tokens(text: str, expected: int) -> None:
    assert content_tokens(text, ALL) == expected


@pytest.mark.parametrize(
    "text", ["is that one all right?", "et celui-ci ?", "was ist mit dem anderen", "それはなぜ", "那个怎么样"]
)
def test_references_are_seen(text: str) -> None:
    assert wording(text, ALL).refers
    assert not wording("renew portal.tarnhill.example", ALL).refers


@pytest.mark.parametrize(
    "text",
    ["and in the yard sale story?", "et les Ormes ?", "und die andere id?", "y mañana?", "e domani?", "那茶馆呢"],
)
def test_openers_are_seen(text: str) -> None:
    assert wording(text, ALL).goes_on
    assert not wording("renew portal.tarnhill.example", ALL).goes_on
