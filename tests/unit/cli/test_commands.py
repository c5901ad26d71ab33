"""The table of commands: it must say what the commands themselves say."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from worker.cli import app
from worker.cli.commands import COMMANDS, EVERY_DAY, HIDDEN, MEANT, PANELS
from worker.cli.output import wants_json


def group() -> Any:
    return typer.main.get_command(app)


EVERY_DAY_COMMANDS = (
    *(
        "setup",
        "status",
        "remember",
        "search",
        "list",
        "show",
        "edit",
        "forget",
        "undo",
        "capture",
        "review",
        "upkeep",
        "import",
        "export",
        "why",
        "console",
        "settings",
    ),
)

ALL = typer.main.get_command(app).all_loaded()  # type: ignore[attr-defined]


def at(name: str) -> Any:
    """The loaded command of a full name."""
    command: Any = ALL
    for word in name.split():
        command = command.commands[word]
    return command


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_shows_the_first_paragraph_of_the_help(name: str) -> None:
    assert COMMANDS[name][1] == " ".join(at(name).help.partition("\n\n")[0].split())


def test_the_help_begins_with_the_commands_of_every_day_and_ends_with_the_groups() -> None:
    shown = [name for name, command in group().commands.items() if not command.hidden]
    assert shown == [name for name in COMMANDS if " " not in name]
    assert tuple(name for name in shown if name not in PANELS) == EVERY_DAY_COMMANDS
    printed = CliRunner().invoke(app, ["--help"]).output
    headings = [printed.index(f"\n{heading}:\n") for heading in dict.fromkeys((EVERY_DAY, *PANELS.values()))]
    assert headings == sorted(headings)
    assert all(f" {name} " in printed for name in shown)


def test_a_group_lists_its_members() -> None:
    printed = CliRunner().invoke(app, ["hosts", "--help"]).output
    assert all(f" {name} " in printed for name in ("install", "uninstall", "mcp", "skill", "automations"))


def test_other_spellings_still_work_but_are_not_listed() -> None:
    commands = group().commands
    assert {name for name, command in commands.items() if command.hidden} == set(HIDDEN)
    for name, successor in HIDDEN.items():
        meant, known = at(successor), at(name)
        assert known.hidden
        assert [parameter.opts for parameter in known.params] == [parameter.opts for parameter in meant.params]
        assert list(getattr(known, "commands", ())) == list(getattr(meant, "commands", ()))


EARLIER = (
    *("add", "remember", "recall", "update", "relate", "forget", "inject", "receipt"),
    *("why", "doctor", "calibrate", "demo", "replay", "label", "usage", "install"),
    *("uninstall", "calibrate-decision", "show", "list", "import", "export", "eval", "compare"),
    *("enrich", "mcp", "skill", "automations", "relevance", "prompts", "settings", "session"),
    *("store", "up", "start", "stop", "restart", "status", "logs", "worker"),
    *("http", "setup", "judge"),
)


@pytest.mark.parametrize("name", EARLIER)
def test_every_name_of_earlier_versions_leads_to_its_command(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"Usage: root {name} " in result.output or f" {name} [OPTIONS]" in result.output


def leaves(command: Any) -> list[Any]:
    members = list(getattr(command, "commands", {}).values())
    return [leaf for member in members for leaf in leaves(member)] if members else [command]


@pytest.mark.parametrize("name", COMMANDS)
def test_only_documented_options_are_there(name: str) -> None:
    options = {one for parameter in at(name).params for one in parameter.opts}
    assert not {one for one in options if "completion" in one}


def test_every_command_can_print_json() -> None:
    found = leaves(ALL)
    assert len(found) > 40
    for command in found:
        assert ["--json"] in [parameter.opts for parameter in command.params], command.name


def refused(*arguments: str) -> str:
    """What the program says of a command that it does not have."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    return " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("name", MEANT)
def test_a_usual_name_leads_to_the_right_command(name: str) -> None:
    assert name not in group().commands
    assert MEANT[name].startswith("--") or at(MEANT[name])
    assert f"there is no command '{name}'; use `meeseeks {MEANT[name]}`" in refused(name, "--anything")


@pytest.mark.parametrize(("typed", "meant"), [("recal", "search"), ("instal", "hosts install"), ("serch", "search")])
def test_a_misspelt_name_leads_to_the_command_as_it_is_called_now(typed: str, meant: str) -> None:
    assert f"there is no command '{typed}'; did you mean `meeseeks {meant}`?" in refused(typed)


def test_a_name_that_resembles_none_leads_to_the_help() -> None:
    assert "there is no command 'xyzzy'; see `meeseeks --help`" in refused("xyzzy")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("hosts inst", "install"),
        ("eval comp", "compare"),
        ("remember --imp", "--importance"),
        ("settings uns", "unset"),
    ],
)
def test_the_shell_completes_members_of_groups_and_options(words: str, offered: str) -> None:
    typed = f"meeseeks {words}"
    given = {"_ROOT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    assert CliRunner().invoke(app, [], env=given).output.split() == [offered]


def test_json_is_chosen_for_one_command_only(tmp_path: Path) -> None:
    (tmp_path / "meeseeks.toml").write_text("[service\n")
    failed = CliRunner().invoke(app, ["--config", str(tmp_path / "meeseeks.toml"), "show", "m1", "--json"])
    assert "error" in json.loads(failed.stdout)
    assert not wants_json()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "--limit", "many"), "'--limit': must be a whole number"),
        (("list", "--limit", "0"), "'--limit': must be at least 1"),
        (("remember", "x", "--importance", "2"), "'--importance': must be at most 1"),
        (("remember", "x", "--type", "secret"), "'--type': 'secret' is not one of 'identity', 'goal',"),
        (("receipts", "--since", "soon"), "'--since': must be a date and time, such as 2026-01-31T12:00:00Z"),
        (("import", "no-such-file"), "path 'no-such-file' does not exist"),
        (("list", "--user", " "), "'--user': must not be blank"),
    ],
)
def test_a_wrong_value_is_refused_without_the_words_of_a_library(words: tuple[str, ...], said: str) -> None:
    printed = refused(*words)
    assert said in printed
    assert "Value error" not in printed
    assert "Input should" not in printed


@pytest.mark.parametrize("words", [["--help"], ["hosts", "--help"], ["remember", "--help"], ["list", "--limit", "x"]])
def test_help_and_usage_errors_are_plain_text_unless_a_terminal_shows_them(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "│" not in CliRunner().invoke(app, words).output
    monkeypatch.setattr("worker.cli._markup", lambda: "rich")
    assert "│" in CliRunner().invoke(app, words).output
