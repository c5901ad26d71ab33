"""Several requests in one message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.domain.kinds import Language
from worker.query.subqueries import MOST_INTENTS, subqueries
from worker.text.lexicon import content_tokens, lexicon


@pytest.mark.parametrize(
    "message",
    [
        "where is the kiln key",
        "good. and who binds it?",
        "Which valve did Bertrand tell us to close first?",
        "",
        "why blank? and why not?",
        "下周跟马姐谈续约，帮我准备一页要点",
    ],
)
def test_one_request_stays_whole(message: str) -> None:
    assert subqueries(message) == (message,)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "Which kiln is booked on Friday? Who fetches Clara from the station?",
            ("Which kiln is booked on Friday?", "Who fetches Clara from the station?"),
        ),
        (
            "draft the Lumio invoice; book the train to Malmö and also remind Petter of the visa form",
            ("draft the Lumio invoice", "book the train to Malmö", "remind Petter of the visa form"),
        ),
        (
            "please do:\n- renew the kiln insurance\n2) order glaze from Ostrea\n* thanks",
            ("please do: renew the kiln insurance", "order glaze from Ostrea thanks"),
        ),
        (
            "Réserve le four pour vendredi et aussi commande les émaux chez Ostrea",
            ("Réserve le four pour vendredi", "commande les émaux chez Ostrea"),
        ),
        (
            "窯の温度の上限を教えて。請求書の送付先も確認して。",
            ("窯の温度の上限を教えて。", "請求書の送付先も確認して。"),
        ),
    ],
)
def test_several_requests_are_split(message: str, expected: tuple[str, ...]) -> None:
    assert subqueries(message) == expected


def test_at_most_four_parts_and_nothing_is_lost() -> None:
    parts = subqueries("\n".join(f"- ship crate{n} via harbour{n}" for n in range(9)))
    assert len(parts) == MOST_INTENTS
    assert all(f"crate{n}" in " ".join(parts) for n in range(9))


@given(st.text(max_size=600))
def test_every_part_can_be_searched_with(text: str) -> None:
    parts = subqueries(text)
    assert 1 <= len(parts) <= MOST_INTENTS
    if len(parts) > 1:
        known = lexicon(tuple(Language))
        assert all(content_tokens(part, known) >= 2 for part in parts)
