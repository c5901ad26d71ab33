"""No text reaches a terminal as a control sequence."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.text.terminal import for_terminal


@given(st.text())
def test_nothing_but_tabs_and_line_feeds_controls_a_terminal(text: str) -> None:
    shown = for_terminal(text)
    assert {character for character in shown if unicodedata.category(character) in ("Cc", "Cs")} <= {"\t", "\n"}
    assert len(shown) == len(text)
    assert for_terminal(shown) == shown


@pytest.mark.parametrize("text", ["Übung\tfür 東京\n", "👩‍🔧 می‌خواهم", "🏳️‍🌈"])
def test_ordinary_text_stays(text: str) -> None:
    assert for_terminal(text) == text


def test_controls_are_shown() -> None:
    assert for_terminal("a\x1b]52;c;x\x07\x7f\u009b2J\u202eb") == "a␛]52;c;x␇␡�2J�b"
