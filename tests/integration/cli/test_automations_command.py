"""`meeseeks hosts automations`: register, look, change, run."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.scripts import SAYS, shell

POINT = "worker:pre_execution"


@pytest.fixture
def meeseeks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    for name in ("MEESEEKS_URL", "MEESEEKS_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEESEEKS_DATA_DIR", "/nowhere")  # what a command sets there is undone after the test
    return command_line(tmp_path)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return shell(tmp_path, "program", f"cat > {tmp_path}/event; echo '{SAYS}'")


def names(meeseeks: CommandLine) -> list[tuple[str, str]]:
    return [(row["name"], row["status"]) for row in meeseeks.json("automations", "list")["automations"]]


def test_a_program_is_registered_listed_changed_and_removed(meeseeks: CommandLine, program: Path) -> None:
    options = ("--position", "5", "--timeout-ms", "20000", "--workspace", "~/w", "--background", "--disabled")
    added = meeseeks.json("automations", "add", "mine", "--script", str(program), *options)
    expected = {
        "name": "mine",
        "kind": "script",
        "script_path": str(program),
        "hook_point": POINT,
        "mode": "persistent",
        "status": "disabled",
        "blocking": False,
        "workspace_dir": os.path.expanduser("~/w"),  # noqa: PTH111
        "timeout_ms": 20000,
        "position": 5,
    }
    assert expected.items() <= added.items()
    assert meeseeks.json("automations", "show", "mine") == added
    assert names(meeseeks) == [("mine", "disabled"), ("memory-injection", "active")]
    assert meeseeks.json("automations", "enable", "mine")["status"] == "active"
    assert meeseeks.json("automations", "disable", "memory-injection")["status"] == "disabled"
    assert names(meeseeks) == [("mine", "active"), ("memory-injection", "disabled")]
    assert meeseeks.json("automations", "remove", "mine")["removed"]["name"] == "mine"
    assert names(meeseeks) == [("memory-injection", "disabled")]


def test_people_get_tables(meeseeks: CommandLine, program: Path) -> None:
    meeseeks.ok("automations", "add", "mine", "--script", str(program), "--timeout-ms", "20000")
    assert "worker:pre_execution" in meeseeks.ok("automations", "list")
    assert "persistent" in meeseeks.ok("automations", "show", "mine")
    said = meeseeks.ok("automations", "run", POINT, "--message", "hi", "--only", "mine")
    assert "fired" in said
    assert '"said"' in said
    assert meeseeks.ok("automations", "remove", "mine") == "removed: mine\n"


def test_an_entry_in_python_is_registered(meeseeks: CommandLine) -> None:
    entry = "tests.support.automation_entries:plain"
    added = meeseeks.json("automations", "add", "mine", "--entry", entry, "--mode", "ephemeral")
    assert (added["kind"], added["script_path"], added["mode"]) == ("python", entry, "ephemeral")
    outcome = meeseeks.json("automations", "run", POINT, "--message", "hi", "--only", "mine")
    assert outcome["enrichment"] == {"notes": ["plain hi"]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "x"), "--script PATH or --entry MODULE:NAME"),
        (("add", "x", "--script", "/bin/true", "--entry", "a:b"), "--script PATH or --entry MODULE:NAME"),
        (("add", "x", "--script", "/no/such/file"), "no such file: /no/such/file"),
        (("add", "x", "--script", "/etc/passwd"), "chmod +x"),
        (("add", "x", "--script", "/"), "no such file: /"),
        (("add", "x", "--entry", "nonsense"), "module:name"),
        (("add", "x y", "--entry", "a:b"), "invalid name"),
        (
            ("add", "x", "--entry", "a:b", "--hook-point", "worker:later"),
            "worker:pre_execution or worker:post_execution",
        ),
        (("add", "x", "--entry", "a:b", "--timeout-ms", "0"), "1 to 60000 ms"),
        (("add", "memory-injection", "--entry", "a:b"), "already"),
        (("show", "nobody"), "unknown automation 'nobody'"),
        (("enable", "nobody"), "unknown automation 'nobody'"),
        (("disable", "nobody"), "unknown automation 'nobody'"),
        (("remove", "nobody"), "unknown automation 'nobody'"),
        (("run", "worker:later"), "worker:pre_execution or worker:post_execution"),
        (("run", POINT, "--only", "nobody"), "unknown automation 'nobody'"),
        (("run", POINT, "--event", "{"), "not JSON"),
        (("run", POINT, "--event", "[1]"), "a JSON object such as"),
    ],
)
def test_what_is_wrong_is_said(meeseeks: CommandLine, arguments: tuple[str, ...], words: str) -> None:
    assert words in meeseeks.json("automations", *arguments, exit_code=1)["error"]
    said = meeseeks.run("automations", *arguments).output
    assert words in " ".join(said.split())


def test_a_run_shows_what_every_automation_did(meeseeks: CommandLine, program: Path, tmp_path: Path) -> None:
    meeseeks.json("automations", "add", "mine", "--script", str(program), "--timeout-ms", "20000")
    meeseeks.json("automations", "add", "bad", "--script", str(shell(tmp_path, "bad", "exit 3")))
    outcome = meeseeks.json("automations", "run", POINT, "--message", "hi", exit_code=1)
    told: list[tuple[Any, ...]] = [(run["name"], run["status"], run["detail"]) for run in outcome["runs"]]
    assert told == [
        ("memory-injection", "silent", "queue_unavailable"),
        ("mine", "fired", ""),
        ("bad", "failed", "exit status 3"),
    ]
    assert outcome["enrichment"] == {"notes": ["said"]}
    assert '"session_id": "manual"' in (tmp_path / "event").read_text()


def test_the_event_may_come_from_standard_input(meeseeks: CommandLine, program: Path, tmp_path: Path) -> None:
    meeseeks.json("automations", "disable", "memory-injection")
    meeseeks.json("automations", "add", "mine", "--script", str(program), "--background", "--timeout-ms", "20000")
    said = meeseeks.ok("automations", "run", POINT, "--event", "-", given='{"session_id": "mine", "more": 1}')
    assert "started" in said
    assert '"session_id": "mine", "more": 1' in (tmp_path / "event").read_text()
