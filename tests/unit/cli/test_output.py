"""The border to the terminal: hostile ids, names and texts are shown, not obeyed."""

import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import worker.cli
from worker.cli import output, terminal
from worker.cli.output import fail, note, rule, say, show, show_verbatim, table, warn
from worker.cli.terminal import TerminalConsole

HOSTILE = "id\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\u009b2J\r\x08[red]x\u202e"
_OWN = re.compile(r"\x1b\[[0-9;]*m")


class Screen(StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def printed_by(act: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is printed on a terminal or into a pipe."""
    written = Screen() if kind == "terminal" else StringIO()
    for name in ("console", "errors"):
        console = TerminalConsole(file=written, force_terminal=True, width=200, highlight=False, emoji=False)
        monkeypatch.setattr(terminal, name, console)
    with redirect_stdout(written), redirect_stderr(written):
        act()
    return written.getvalue()


@pytest.mark.parametrize("kind", ["terminal", "pipe"])
@pytest.mark.parametrize(
    "act",
    [
        lambda: say(HOSTILE),
        lambda: show_verbatim(HOSTILE),
        lambda: show(table(HOSTILE, ["id", HOSTILE], [[HOSTILE, "text"]])),
        lambda: note(HOSTILE),
        lambda: warn(HOSTILE),
        lambda: rule(HOSTILE),
    ],
)
def test_no_control_sequence_is_printed(act: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = printed_by(act, kind, monkeypatch)
    assert controls_in(printed) == set()
    assert "[red]x" in printed, "texts are no markup"


@pytest.mark.parametrize("kind", ["terminal", "pipe"])
def test_an_error_message_has_none_either(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> None:
        with pytest.raises(Exception, match="1"):
            fail(f"there is no memory {HOSTILE}")

    assert controls_in(printed_by(failing, kind, monkeypatch)) == set()


LONG = " ".join(f"word{number}" for number in range(60))


def test_a_pipe_gets_plain_lines_one_for_each_entry(capsys: pytest.CaptureFixture[str]) -> None:
    show(table("found", ["id", "score", "memory"], [["m1", 0.5, LONG], ["memory-2", None, "two\nlines"]]))
    show(table(None, ["a", "b", "c"], [["short"]]))
    say(LONG)
    warn(f"[bold]{LONG}")
    written = capsys.readouterr()
    assert written.out.splitlines() == [
        "found",
        "id        score  memory",
        f"m1        0.5    {LONG}",
        "memory-2         two lines",
        "a      b  c",
        "short",
        LONG,
    ]
    assert written.err == f"warning: [bold]{LONG}\n"


def test_a_terminal_gets_a_table_that_fits_and_never_cuts_off_what_people_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(terminal, "console", TerminalConsole(file=screen, force_terminal=True, width=60))
    show(table(None, ["id", "memory"], [["0123456789abcdef", LONG]], whole=1))
    lines = [_OWN.sub("", line) for line in screen.getvalue().splitlines()]
    assert max(map(len, lines)) <= 60
    assert any(line.startswith("0123456789abcdef ") for line in lines)


def test_json_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({HOSTILE: HOSTILE})
    assert capsys.readouterr().out.isascii()


def test_commands_print_only_through_the_border() -> None:
    folder = Path(worker.cli.__file__).parent
    own = re.compile(r"\bConsole\(|\btyper\.s?echo\b|\bsys\.(?:stdout|stderr)\.(?:write|buffer)\b")
    direct = {path.name for path in folder.rglob("*.py") if own.search(path.read_text(encoding="utf-8"))}
    assert direct <= {"output.py", "terminal.py"} | EXPORTS, direct


EXPORTS = {"transfers.py"}
"""Writes files, to standard output if asked to."""


def controls_in(printed: str) -> set[str]:
    """Return the control characters that are printed, besides our own styles; the text itself must be there."""
    plain = _OWN.sub("", printed)
    assert "ZXZpbA==" in plain
    return set(plain) & {"\x1b", "\x07", "\x08", "\r", "\u009b", "\u202e"}
