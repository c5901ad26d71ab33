"""Bad input ends a command with a message that names it."""

from pathlib import Path

import pytest

from tests.support.command_line import command_line

BAD_INPUT: tuple[tuple[tuple[str, ...], dict[str, str], str], ...] = (
    (("recall", ""), {}, "query"),
    (("inject", "hello", "--mode", "sometimes"), {}, "mode"),
    (("receipt", "nothing-like-that"), {}, "nothing-like-that"),
    (("up",), {"MEESEEKS_EMBEDDER": "magic"}, "use minilm"),
    (("up",), {"MEESEEKS_REDIS_URL": "http://example.org"}, "URL of Redis must start with"),
    (("up", "--http", "--http-host", "0.0.0.0"), {}, "MEESEEKS_HTTP_TOKEN"),
    (("up", "--http"), {"MEESEEKS_HTTP_TOKEN": "short"}, "at least 16 printable ASCII characters"),
    (("worker",), {}, "meeseeks up"),
    (("doctor",), {"MEESEEKS_REDIS_URL": "redis://127.0.0.1:1"}, "cannot be reached"),
)


@pytest.mark.parametrize(("arguments", "variables", "words"), BAD_INPUT)
def test_bad_input_is_named(tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], words: str) -> None:
    ran = command_line(tmp_path, **variables).run(*arguments)
    told = " ".join(ran.output.split())
    assert ran.exit_code == 1, told
    assert words in told
    assert len(told) < 600
