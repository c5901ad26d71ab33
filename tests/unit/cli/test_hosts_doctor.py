"""What the doctor makes of a hook's run."""

import json
from typing import Any

import pytest

from worker.adapters.local.hook_runner import CommandRun, filled, run_command
from worker.cli.hosts.host_doctor import findings
from worker.hosts import HOSTS

CLAUDE, NEXUS = HOSTS["claude-code"], HOSTS["nexus"]
COMMAND = {"type": "command", "command": "meeseeks-hook claude-code", "timeout": 4}
URL = {"type": "http", "url": "http://h/v1/hooks/claude-code", "timeout": 4}
EVENT = CLAUDE.example("s", "m")


def output(text: str, name: str = "UserPromptSubmit", **more: Any) -> bytes:
    return json.dumps({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}, **more}).encode()


@pytest.mark.parametrize(
    ("handler", "ran", "expected", "said"),
    [
        (COMMAND, CommandRun(output("memory"), "", 0, 0.1), "memory", None),
        (COMMAND, CommandRun(b"", "", 0, 0.1), None, None),
        (COMMAND, CommandRun(b"{}\n", "", 0, 0.1), None, None),
        (URL, CommandRun(b"{}", "", 200, 0.1), None, None),
        (COMMAND, CommandRun(b"", "", 0, 0.1), "memory", "the test memory was not injected"),
        (COMMAND, CommandRun(output("The doctor's test bell rings at 7"), "", 0, 0.1), None, "memory was injected"),
        (COMMAND, CommandRun(output("memory"), "", 2, 0.1), "memory", "code 2, which blocks the user's prompt"),
        (COMMAND, CommandRun(output("memory"), "", 1, 0.1), "memory", "exited with code 1"),
        (COMMAND, CommandRun(b"", "", 127, 0.1), None, "not on the PATH"),
        (COMMAND, CommandRun(output("memory"), "a\nwarning: x\n", 0, 0.1), "memory", "standard error: warning: x"),
        (
            COMMAND,
            CommandRun(b"Welcome!\n" + output("memory"), "", 0, 0.1),
            "memory",
            "did not print JSON but 'Welcome!",
        ),
        (COMMAND, CommandRun(b"", "the command timed out", None, 4.0), "memory", "the command timed out (4 s)"),
        (COMMAND, CommandRun(output("memory", "Stop"), "", 0, 0.1), "memory", "hookEventName must be UserPromptSubmit"),
        (COMMAND, CommandRun(output("memory", trace_id="x"), "", 0, 0.1), "memory", "only have hookSpecificOutput"),
        (COMMAND, CommandRun(output("memory" + "x" * 10_000), "", 0, 0.1), "memory", "longer than 10000 characters"),
        ({**COMMAND, "timeout": 2}, CommandRun(b"", "", 0, 0.1), None, "the host waits only 2 s, less"),
        (URL, CommandRun(b"", "", 401, 0.1), None, "set MEESEEKS_TOKEN"),
        (URL, CommandRun(b"", "", 503, 0.1), None, "status 503, which the host shows at every prompt"),
    ],
)
def test_a_run_is_checked(handler: dict[str, Any], ran: CommandRun, expected: str | None, said: str | None) -> None:
    found = findings(CLAUDE, handler, EVENT, ran, expected)
    assert (found == []) if said is None else (said in "; ".join(found))


def test_a_hook_with_a_shorter_limit_of_its_own_may_have_a_shorter_one_of_the_host() -> None:
    handler = {"type": "command", "command": "MEESEEKS_TIMEOUT_MS=1000 meeseeks-hook claude-code", "timeout": 2}
    assert findings(CLAUDE, handler, EVENT, CommandRun(b"", "", 0, 0.1), None) == []


def test_a_hosts_own_nothing_is_nothing() -> None:
    nothing = json.dumps(dict(NEXUS.nothing)).encode()
    event = NEXUS.example("s", "m")
    assert findings(NEXUS, COMMAND, event, CommandRun(nothing, "", 0, 0.1), None) == []
    assert findings(NEXUS, COMMAND, event, CommandRun(b"{}", "", 0, 0.1), None)


@pytest.mark.parametrize(
    ("value", "allowed", "becomes"),
    [
        ("Bearer $TOKEN", ("TOKEN",), "Bearer s3cret"),
        ("Bearer ${TOKEN}x", ("TOKEN",), "Bearer s3cretx"),
        ("Bearer $TOKEN", (), "Bearer"),
        ("$UNSET|$", ("UNSET",), "|$"),
    ],
)
def test_headers_are_filled_from_what_the_host_may_pass_on(value: str, allowed: tuple[str, ...], becomes: str) -> None:
    assert filled(value, allowed, {"TOKEN": "s3cret"}) == becomes


async def test_a_command_that_hangs_is_ended_with_everything_it_started() -> None:
    ran = await run_command("sleep 60 & sleep 60", b"{}", shell=("sh", "-c"), limit_s=0.3, variables={})
    assert ran.code is None
    assert 0.3 <= ran.seconds < 5


async def test_a_command_that_does_not_read_its_input_is_no_trouble() -> None:
    ran = await run_command("echo $X", b"x" * 1_000_000, shell=("sh", "-c"), limit_s=10, variables={"X": "y"})
    assert (ran.output, ran.code) == (b"y\n", 0)
