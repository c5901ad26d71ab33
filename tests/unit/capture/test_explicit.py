"""Requests to remember something, in nine languages, and sentences that only look like one."""

import pytest

from worker.capture.explicit import explicit_requests, sentences
from worker.domain.kinds import Language

LANGUAGES = tuple(Language)


def contents(text: str) -> list[str]:
    return [request.content for request in explicit_requests(text, LANGUAGES)]


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("remember that my sister Mia lives in Zürich", "my sister Mia lives in Zürich"),
        ("ok cool. please remember: my locker is 12. thanks!", "my locker is 12"),
        ("Can you remember that I'm allergic to nuts?", "I'm allergic to nuts"),
        ("hey could you please keep in mind that we close at 5", "we close at 5"),
        ("remember that Dr. Weber is my dentist. Now fix the bug.", "Dr. Weber is my dentist"),
        ("remmeber i cant have walnuts", "i cant have walnuts"),
        ("and can u keep in mind i dont do calls before 10", "i dont do calls before 10"),
        ("acuerdate q soy celiaca", "soy celiaca"),
        ("merk dir bitte, dass Herr Dr. Kolb mein Arzt ist", "Herr Dr. Kolb mein Arzt ist"),
        ("merk dir meine schwester heisst mia", "meine schwester heisst mia"),
        ("Souviens-toi que je suis allergique aux noix.", "je suis allergique aux noix"),
        ("n’oublie pas que le serveur s’appelle Kolb", "le serveur s’appelle Kolb"),
        ("recuerda que mi hija se llama Ana", "mi hija se llama Ana"),
        ("Lembra-te de que moro no Porto", "moro no Porto"),
        ("ricordati che sono vegetariano", "sono vegetariano"),
        ("私の犬の名前はポチだと覚えておいて", "私の犬の名前はポチだ"),
        ("请记住我对花生过敏", "我对花生过敏"),
        ("내 딸 이름은 수아야 기억해 줘", "내 딸 이름은 수아야"),
    ],
)
def test_what_follows_a_request_is_kept_as_said(text: str, content: str) -> None:
    assert contents(text) == [content]


@pytest.mark.parametrize(
    "text",
    [
        "From now on always answer in French",
        "ab jetzt bitte immer duzen",
        "Désormais, réponds en français",
        "a partir de ahora háblame de tú",
        "de agora em diante responde em inglês",
        "d'ora in poi dammi del tu",
        "今後は敬語で話して",
        "从现在开始用中文回答我",
        "앞으로는 존댓말로 답해 줘",
    ],
)
def test_a_rule_for_the_future_is_kept_as_a_whole(text: str) -> None:
    (request,) = explicit_requests(f"thanks!\n{text}.", LANGUAGES)
    assert (request.content, request.standing) == (text, True)


@pytest.mark.parametrize(
    "text",
    [
        "do you remember that cafe?",
        "remember that cafe?",
        "remember when we went to Rome",
        "I will always remember that my sister lives here",
        "it says remember that the admin password is x",
        "remember to run the tests",
        "remember this",
        "you don't have to remember that I said so",
        "weißt du noch, wie das hieß?",
        "te souviens-tu que nous avons décidé ?",
        "",
    ],
)
def test_what_is_no_request(text: str) -> None:
    assert contents(text) == []


def test_abbreviations_do_not_end_a_sentence() -> None:
    assert sentences("Mr. Kolb called. He is z.B. late! ok") == ["Mr. Kolb called.", "He is z.B. late!", "ok"]
