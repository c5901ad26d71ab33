"""The table of commands: it must say what the commands themselves say."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from worker.cli import COMMANDS, HIDDEN, MEANT, app
from worker.cli.output import wants_json


def group() -> Any:
    return typer.main.get_command(app)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_shows_the_first_paragraph_of_the_help(name: str) -> None:
    shown = group().commands[name].help
    assert shown == " ".join(group().all_loaded().commands[name].help.partition("\n\n")[0].split())


def test_names_of_earlier_versions_still_work_but_are_not_listed() -> None:
    commands = group().commands
    assert {name for name, command in commands.items() if command.hidden} == set(HIDDEN)
    for name, successor in HIDDEN.items():
        loaded = group().all_loaded().commands
        assert loaded[name].hidden
        assert list(loaded[name].commands) == list(loaded[successor].commands)


def leaves(command: Any) -> list[Any]:
    members = list(getattr(command, "commands", {}).values())
    return [leaf for member in members for leaf in leaves(member)] if members else [command]


@pytest.mark.parametrize("name", COMMANDS)
def test_only_documented_options_are_there(name: str) -> None:
    options = {one for parameter in group().all_loaded().commands[name].params for one in parameter.opts}
    assert not {one for one in options if "completion" in one}


def test_every_command_can_print_json() -> None:
    found = leaves(group().all_loaded())
    assert len(found) > 40
    for command in found:
        assert ["--json"] in [parameter.opts for parameter in command.params], command.name


@pytest.mark.parametrize("name", MEANT)
def test_a_usual_name_leads_to_the_right_command(name: str) -> None:
    assert name not in COMMANDS
    named = re.findall(r"`meeseeks (\w+)", MEANT[name])
    assert named
    assert set(named) <= set(COMMANDS)
    result = CliRunner().invoke(app, [name, "--anything"])
    assert result.exit_code == 2
    assert f"there is no command '{name}'; {MEANT[name]}" in " ".join(result.output.replace("│", " ").split())


def test_json_is_chosen_for_one_command_only(tmp_path: Path) -> None:
    (tmp_path / "meeseeks.toml").write_text("[service\n")
    failed = CliRunner().invoke(app, ["--config", str(tmp_path / "meeseeks.toml"), "show", "m1", "--json"])
    assert "error" in json.loads(failed.stdout)
    assert not wants_json()
