"""The border to the terminal: hostile ids, names and texts are shown, not obeyed."""

import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import worker.cli
from worker.cli import output
from worker.cli.output import TerminalConsole, fail, say, show, show_verbatim, table

HOSTILE = "id\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\u009b2J\r\x08[red]x\u202e"
_OWN = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    written = StringIO()
    for name in ("console", "errors"):
        monkeypatch.setattr(output, name, TerminalConsole(file=written, force_terminal=True, width=200))
    return written


@pytest.mark.parametrize(
    "act",
    [
        lambda: say(HOSTILE),
        lambda: show_verbatim(HOSTILE),
        lambda: show(table(HOSTILE, ["id", HOSTILE], [[HOSTILE, "text"]])),
        lambda: output.errors.print(f"[red]{HOSTILE}"),
        lambda: output.errors.print(HOSTILE, markup=False),
        lambda: output.console.rule(HOSTILE),
    ],
)
def test_no_control_sequence_is_printed(act: Any, printed: StringIO) -> None:
    act()
    assert controls_in(printed) == set()


def test_an_error_message_has_none_either(printed: StringIO) -> None:
    with pytest.raises(Exception, match="1"):
        fail(f"there is no memory {HOSTILE}")
    assert controls_in(printed) == set()


def test_json_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({HOSTILE: HOSTILE})
    assert capsys.readouterr().out.isascii()


def test_commands_print_only_through_the_border() -> None:
    folder = Path(worker.cli.__file__).parent
    own = re.compile(r"\bConsole\(|\btyper\.s?echo\b|\bsys\.(?:stdout|stderr)\.(?:write|buffer)\b")
    direct = {path.name for path in folder.rglob("*.py") if own.search(path.read_text(encoding="utf-8"))}
    assert direct <= {"output.py"} | EXPORTS, direct


EXPORTS = {"transfers.py"}
"""Writes files, to standard output if asked to."""


def controls_in(printed: StringIO) -> set[str]:
    """Return the control characters that are printed, besides our own styles; the text itself must be there."""
    plain = _OWN.sub("", printed.getvalue())
    assert "ZXZpbA==" in plain
    return set(plain) & {"\x1b", "\x07", "\x08", "\r", "\u009b", "\u202e"}
