"""What a model is asked about: turns that may say something to keep."""

import pytest

from worker.capture.skipping import is_worth_reading
from worker.capture.window import Window
from worker.domain.capture import WindowTurn
from worker.domain.kinds import Language


def is_read(text: str) -> bool:
    turn = WindowTurn(key="k", id="k", role="user", text=text, at=None, evidence=True)
    return is_worth_reading(Window((turn,)), tuple(Language))


@pytest.mark.parametrize(
    "text",
    [
        "my sister lives in Bern",
        "Größe-M passt mir nicht",
        "Mon frère Élie-Paul déménage demain",
        "妹のミアはベルンに住んでいます",
        "Wir ziehen nach 東京 um",
    ],
)
def test_a_turn_of_enough_words_is_read(text: str) -> None:
    assert is_read(text)


@pytest.mark.parametrize("text", ["why?", "go on then", "merci à-tous", "はい、続けて", "/clear all of this now"])
def test_short_turns_and_commands_are_not(text: str) -> None:
    assert not is_read(text)
