"""The skip ladder: which requests get no memory without a search, and why."""

import time
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import InjectionRequest, Reason
from worker.domain.errors import SettingsError
from worker.domain.kinds import Language
from worker.query.skipping import skip_reason
from worker.settings.injection import InjectionConfig, Settings

PROPOSAL = (
    {"role": "user", "content": "is the kiln booked?"},
    {"role": "assistant", "content": "No. Shall I book it?"},
)
STATEMENT = ({"role": "user", "content": "is the kiln booked?"}, {"role": "assistant", "content": "It is booked."})


def reason(message: str, settings: dict[str, Any] | None = None, **fields: Any) -> Reason | None:
    request = InjectionRequest.model_validate({"session_id": "s", "message": message, **fields})
    return skip_reason(request, InjectionConfig.model_validate(settings or {}))


@pytest.mark.parametrize(
    ("fields", "settings", "expected"),
    [
        ({}, {}, None),
        ({}, {"enabled": False}, Reason.DISABLED),
        ({}, {"mode": "off"}, Reason.MODE_OFF),
        ({"mode": "off"}, {}, Reason.MODE_OFF),
        ({"mode": "deterministic"}, {"mode": "off"}, None),
        ({"source": "retrigger"}, {}, Reason.SOURCE_SKIPPED),
        ({"source": "heartbeat"}, {}, Reason.SOURCE_SKIPPED),
        ({"source": "cron"}, {}, None),
        ({"source": "cron"}, {"skip_sources": ["cron"]}, Reason.SOURCE_SKIPPED),
    ],
)
def test_switches_and_sources(fields: dict[str, Any], settings: dict[str, Any], expected: Reason | None) -> None:
    assert reason("where is the key", settings, **fields) is expected


@pytest.mark.parametrize("message", [" \n\x00 ", "", "<memory_context>\nnotice\nnote\n</memory_context>\n\n"])
def test_empty_messages(message: str) -> None:
    assert reason(message) is Reason.EMPTY_MESSAGE
    assert reason(message, task_description="clean the kiln") is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("thanks", Reason.ACKNOWLEDGEMENT),
        ("ok", Reason.ACKNOWLEDGEMENT),
        ("go on", Reason.ACKNOWLEDGEMENT),
        ("ok perfect thanks, that's what I needed", Reason.ACKNOWLEDGEMENT),
        ("merci !", Reason.ACKNOWLEDGEMENT),
        ("c’est noté, merci beaucoup", Reason.ACKNOWLEDGEMENT),
        ("vielen Dank, passt so", Reason.ACKNOWLEDGEMENT),
        ("graciasss 🙌", Reason.ACKNOWLEDGEMENT),
        ("boa, obrigado 👍", Reason.ACKNOWLEDGEMENT),
        ("perfetto, grazie mille", Reason.ACKNOWLEDGEMENT),
        ("ありがとう、助かった。おやすみ", Reason.ACKNOWLEDGEMENT),
        ("好的 辛苦了", Reason.ACKNOWLEDGEMENT),
        ("고마워~", Reason.ACKNOWLEDGEMENT),
        ("moin", Reason.GREETING),
        ("Moin Quill!", Reason.GREETING),
        ("bonne soirée tout le monde", Reason.GREETING),
        ("¡Buenos días!", Reason.GREETING),
        ("bom dia :)", Reason.GREETING),
        ("buongiorno!! ☕", Reason.GREETING),
        ("おはようございます", Reason.GREETING),
        ("早上好 在吗", Reason.GREETING),
        ("안녕하세요", Reason.GREETING),
        ("brb", Reason.GREETING),
        ("👍", Reason.EMOJI_ONLY),
        ("😂😂😂", Reason.EMOJI_ONLY),
        ("?!", Reason.EMOJI_ONLY),
    ],
)
def test_small_talk_is_skipped(message: str, expected: Reason) -> None:
    assert reason(message) is expected
    assert reason(message, {"skip_small_talk": False}) is None


@pytest.mark.parametrize(
    "message",
    [
        "hi, deadline?",
        "thanks, and which kiln was it?",
        "morning shifts for the kiln",
        "3150 * 0.8 please",
        "ok now the same on prod",
        "renew portal.tarnhill.example",
        "Milo again 🙄 answer him",
        "why blank?",
        "/var/log is full again, what did we do about it",
        "merci de renouveler le certificat",
        "続けて請求書を送って",
    ],
)
def test_what_says_something_is_served(message: str) -> None:
    assert reason(message) is None


@pytest.mark.parametrize(
    ("message", "after_question", "after_statement"),
    [
        ("yeah go for it", None, None),
        ("yes do it", None, None),
        ("oui vas-y", None, None),
        ("ja mach das", None, None),
        ("dale", None, None),
        ("继续", None, None),
        ("yes", None, Reason.ACKNOWLEDGEMENT),
        ("👍", None, Reason.EMOJI_ONLY),
        ("ok thanks", Reason.ACKNOWLEDGEMENT, Reason.ACKNOWLEDGEMENT),
        ("merci !", Reason.ACKNOWLEDGEMENT, Reason.ACKNOWLEDGEMENT),
        ("moin", Reason.GREETING, Reason.GREETING),
    ],
)
def test_a_go_ahead_has_the_subject_of_earlier_turns(
    message: str, after_question: Reason | None, after_statement: Reason | None
) -> None:
    assert reason(message) is not None
    assert reason(message, recent_messages=PROPOSAL) is after_question
    assert reason(message, recent_messages=STATEMENT) is after_statement


def test_a_task_that_says_more_is_served() -> None:
    assert reason("go on", task_description="Rerun the kiln booking") is None
    assert reason("go on", task_description="Go on.") is Reason.ACKNOWLEDGEMENT


@pytest.mark.parametrize("message", ["/clear", "/model fast", "/agents:list all"])
def test_slash_commands(message: str) -> None:
    assert reason(message) is Reason.SLASH_COMMAND


def test_skip_patterns_match_whole_messages() -> None:
    assert reason("[session resumed]") is Reason.SKIP_PATTERN
    assert reason("why was the [session resumed] line logged") is None
    assert reason("nightly tick", {"skip_patterns": ["nightly .*"]}) is Reason.SKIP_PATTERN
    assert reason("nightly tick", {"skip_patterns": []}) is None


@pytest.mark.parametrize(
    "message",
    ["do you remember?", "remember, hi", "comme convenu, merci", "wie besprochen", "como siempre", "前回", "上次"],
)
def test_force_phrases_are_served(message: str) -> None:
    assert reason(message) is None


def test_force_phrases_do_not_open_a_skipped_source_and_force_patterns_do() -> None:
    message = "remember to reply OK"
    assert reason(message, source="heartbeat") is Reason.SOURCE_SKIPPED
    assert reason(message, {"force_patterns": ["(?i)reply ok"]}, source="heartbeat") is None
    assert reason("ok", {"force_patterns": ["^ok$"]}) is None
    assert reason("ok", {"force_patterns": ["^ok$"], "mode": "off"}) is Reason.MODE_OFF


def test_languages_limit_what_is_understood() -> None:
    english = {"languages": [Language.ENGLISH]}
    assert reason("thanks", english) is Reason.ACKNOWLEDGEMENT
    assert reason("moin", english) is None


@pytest.mark.parametrize("key", ["force_patterns", "skip_patterns", "strip_patterns"])
def test_a_bad_regular_expression_is_named(tmp_path: Path, key: str) -> None:
    file = tmp_path / "meeseeks.toml"
    file.write_text(f'[memory_injection]\n{key} = ["ok", "(unclosed"]\n', encoding="utf-8")
    with pytest.raises(SettingsError, match=rf"{key}.*\(unclosed.*not a valid regular expression"):
        Settings.load({}, file)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"deploy(?= now)", "lookahead"),
        (r"(?<!no )deploy", "lookbehind"),
        (r"(a|b)\\1", "references to groups"),
        (r"end\\Z", "use .z"),
        (r"(?x)a b", "flags"),
        (r"a{0,4000}", "at most 1000"),
        (r".{0,1000}.{0,1000}z", "too large"),
    ],
)
def test_an_unsupported_expression_is_refused_with_its_place_and_the_reason(
    tmp_path: Path, pattern: str, reason: str
) -> None:
    file = tmp_path / "meeseeks.toml"
    file.write_text(f'[memory_injection]\nskip_patterns = ["{pattern}"]\n', encoding="utf-8")
    with pytest.raises(SettingsError, match=rf"meeseeks.toml:2: .*skip_patterns.*{reason}"):
        Settings.load({}, file)


@pytest.mark.parametrize("key", ["force_patterns", "skip_patterns", "strip_patterns"])
@pytest.mark.parametrize("pattern", [r"(a|a)+$|(a+)+$", r"(a*)*b", r"(?:a|aa)+c", r"a*a*a*a*a*a*d"])
def test_no_expression_takes_more_than_linear_time(key: str, pattern: str) -> None:
    started = time.process_time()
    reason("a" * 1999 + "! is this fine?", {key: [pattern]})
    assert time.process_time() - started < 2


def test_expressions_meet_texts_that_are_not_unicode() -> None:
    assert reason("\ud800 nightly tick", {"skip_patterns": [r".* nightly tick"]}) is Reason.SKIP_PATTERN


def test_long_input_is_not_skipped() -> None:
    assert reason("ok " * 100_000) is None
