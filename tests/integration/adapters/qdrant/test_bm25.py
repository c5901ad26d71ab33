"""The keyword encoder with the real tokenizers."""

import math

import pytest

from worker.adapters.qdrant.bm25 import Bm25Encoder, languages
from worker.domain.errors import SettingsError
from worker.domain.memory import SparseVector


@pytest.fixture(scope="module")
def english() -> Bm25Encoder:
    return Bm25Encoder("english")


def overlap(encoder: Bm25Encoder, asked: str, text: str) -> float:
    """The BM25 score without inverse document frequencies."""
    passage = encoder.passage(text)
    weights = dict(zip(passage.indices, passage.values, strict=True))
    return sum(weights.get(index, 0.0) for index in encoder.query(asked).indices)


@pytest.mark.parametrize("text", ["", " \n\t", "\x00", "🙂🙃", "!?…", "the of and"])
def test_text_without_terms_is_an_empty_vector(english: Bm25Encoder, text: str) -> None:
    assert english.query(text) == english.passage(text) == SparseVector()


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("kilns", "the kiln is running"),
        ("port 8080", "ports: 8080"),
        ("8080", "listens on 8080"),
        ("RFC-8941", "see rfc 8941"),
        ("CAFE", "Café"),
        ("ＡＢＣ１２３", "abc123"),
        ("Strasse", "Straße"),
        ("苹果", "我喜欢吃苹果"),
        ("会議", "明日の会議は十時です"),
        ("서울 회의", "서울에서 회의가 있다"),
        ("ประชุม", "การประชุมจะจัดพรุ่งนี้"),
        ("совещания", "СОВЕЩАНИЯ в среду"),
    ],
)
def test_words_meet_across_forms_and_scripts(english: Bm25Encoder, asked: str, text: str) -> None:
    assert overlap(english, asked, text) > 0.0
    assert overlap(english, "unrelated zebra", text) == 0.0


def test_the_very_word_weighs_as_in_plain_bm25_and_another_form_a_little_less(english: Bm25Encoder) -> None:
    same, other = overlap(english, "running", "running late"), overlap(english, "runs", "running late")
    assert 0.6 * same < other < 0.8 * same
    plain = 2.2 / (1.0 + 1.2 * (1.0 - 0.75 + 0.75 * 2.0 / 40.0))
    assert same == pytest.approx(plain, rel=1e-5)
    assert overlap(english, "kiln", "kiln late") == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("精算の締め切りはいつ？", [True, False, False]), ("窯の上限温度は？", [False, False, True])],
)
def test_japanese_particles_alone_are_no_match(english: Bm25Encoder, asked: str, expected: list[bool]) -> None:
    texts = [
        "経費精算の締め切りは毎月二十三日です",
        "社員旅行の写真は共有フォルダにあります",
        "窯の温度は一二四〇度が上限です",
    ]
    assert [overlap(english, asked, text) > 0.0 for text in texts] == expected


@pytest.mark.parametrize(
    "text", ["kiln " * 3 + "Kilns 経費精算 경비정산 café", "a\ud800b kiln", "x" * 300_000, "kiln " * 300_000]
)
def test_vectors_are_well_formed(english: Bm25Encoder, text: str) -> None:
    for vector in (english.query(text), english.passage(text)):
        assert vector.indices == tuple(sorted(set(vector.indices)))
        assert len(vector.indices) == len(vector.values) > 0
        assert all(0 <= index < 2**32 for index in vector.indices)
        assert all(math.isfinite(value) and value > 0.0 for value in vector.values)


def test_queries_weigh_every_term_once(english: Bm25Encoder) -> None:
    assert set(english.query("kiln kiln kiln bell").values) == {1.0}
    assert english.query("kiln kiln") == english.query("kiln")


def test_stop_words_and_stems_follow_the_language() -> None:
    german = Bm25Encoder("German")
    assert german.query("der die das") == SparseVector()
    assert overlap(german, "Häuser", "das Haus") > 0.0
    assert overlap(Bm25Encoder("none"), "runs", "running") == 0.0
    assert overlap(Bm25Encoder("none"), "running", "running") > 0.0


def test_every_known_language_works_and_has_a_recipe_of_its_own() -> None:
    encoders = [Bm25Encoder(language) for language in languages()]
    assert all(encoder.passage("kiln 8080").indices for encoder in encoders)
    assert len({encoder.config_hash for encoder in encoders}) == len(encoders) > 25
    assert Bm25Encoder("English ").config_hash == Bm25Encoder("english").config_hash


@pytest.mark.parametrize("language", ["klingon", "", "en"])
def test_an_unknown_language_is_a_settings_error_with_the_known_ones(language: str) -> None:
    with pytest.raises(SettingsError, match=r"english.*german"):
        Bm25Encoder(language)


def test_stop_words_of_other_languages_do_not_match() -> None:
    encoder = Bm25Encoder("english")
    assert encoder.query("le lave-vaisselle est en panne").indices == encoder.query("lave vaisselle panne").indices


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("Where does Mia live?", "Mia has moved"),
        ("what is mia allergic to", "Mia: peanuts"),
        ("call Sue", "Sue's number is 555"),
        ("who is dan", "Dan and Ella are neighbours"),
        ("MOT, when?", "Car is a blue Skoda, MOT due 18 January"),
        ("who is dan", "While the others walk, Dan is the one who drives the van over to us"),
    ],
)
def test_a_word_that_only_another_language_stops_is_searched_for(english: Bm25Encoder, asked: str, text: str) -> None:
    assert overlap(english, asked, text) > 0.5


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("Where does Mia live?", "la mia casa è rossa"),
        ("who is dan", "als het regent dan blijven we"),
        ("la y el", "la"),
    ],
)
def test_a_stop_word_in_a_text_of_its_language_is_not(english: Bm25Encoder, asked: str, text: str) -> None:
    assert overlap(english, asked, text) == 0.0


def test_a_foreign_language_is_known_by_two_of_its_stop_words() -> None:
    none, german = Bm25Encoder("none"), Bm25Encoder("german")
    assert none.query("le chat et la mia").indices == tuple(sorted(none.query("le chat et la mia").indices))
    assert len(none.query("le chat et la mia").indices) == 5
    assert german.query("the cat and the dog") == german.query("cat dog")
    assert german.query("das Haus will") == german.query("Haus")
