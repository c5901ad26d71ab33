"""The Memory Search skill: valid by the public validator, and its reference says what the code does."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import typer
import yaml
from skills_ref import validate

from tests.support.mcp import client_of
from worker.cli import app
from worker.domain.memory import MemoryType
from worker.domain.operation import AnyOperation
from worker.mcp import ToolScope
from worker.operations.requests import RecallRequest
from worker.text.tokens import estimate_tokens
from worker.triage.prompt_files import default_prompts_dir, load_prompts

SKILL = default_prompts_dir() / "memory-search"
PAGES = sorted(SKILL.rglob("*.md"))
REFERENCE = (SKILL / "references" / "recall.md").read_text(encoding="utf-8")


class Nobody:
    """A service that is never asked."""

    async def call(self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = 10.0) -> dict[str, Any]:
        raise AssertionError(operation.name)


def blocks(language: str) -> list[str]:
    """Fenced blocks of a language on every page."""
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [found for page in PAGES for found in pattern.findall(page.read_text(encoding="utf-8"))]


def rows(text: str) -> dict[str, list[str]]:
    """The first table of a page, by the name in its first column."""
    table = text[text.index("|---") :].partition("\n\n")[0].splitlines()[1:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {first.strip("`"): rest for first, *rest in cells}


def test_the_public_validator_finds_nothing_wrong() -> None:
    assert validate(SKILL) == []
    done = subprocess.run(
        [Path(sys.executable).with_name("agentskills"), "validate", SKILL], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_short_enough_for_every_host() -> None:
    front, body = (SKILL / "SKILL.md").read_text(encoding="utf-8").split("---\n", 2)[1:]
    fields = yaml.safe_load(front)
    assert "<" not in fields["description"]
    assert all(isinstance(value, str) for value in fields["metadata"].values())
    assert len(body.splitlines()) < 500
    assert estimate_tokens(body) < 5000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).is_file()


def test_it_is_no_prompt_of_the_service() -> None:
    assert "memory-search" not in load_prompts(default_prompts_dir())


async def test_every_parameter_is_in_the_reference_for_each_way() -> None:
    table = rows(REFERENCE)
    assert set(table) == set(RecallRequest.model_fields)
    async with client_of(Nobody(), ToolScope()) as client:
        tools = {tool.name: tool.input_schema["properties"] for tool in await client.list_tools()}
    assert {name for name, row in table.items() if row[0] not in ("", "set up")} == set(tools["recall"])
    group: Any = typer.main.get_command(app)
    command: click.Command = group.all_loaded().commands["recall"]
    taken = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    named = {option for row in table.values() for option in re.findall(r"`(--[\w-]+)`", row[1])}
    assert named == taken - {"--json"}
    assert str(tools["recall"]["limit"]["default"]) in table["limit"][0]
    assert str(tools["recall"]["limit"]["maximum"]) in table["limit"][0]
    for tool in ("remember", "forget"):
        noted = REFERENCE[REFERENCE.index(f"`{tool}`:") :].partition("|")[0]
        assert set(re.findall(r"`(\w+)`", noted)) == {tool, *tools[tool]}


def test_every_type_is_named() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert not [kind.value for kind in MemoryType if f"`{kind.value}`" not in text and f'"{kind.value}"' not in text]


def test_examples_of_arguments_are_taken() -> None:
    shown = [json.loads(text) for text in blocks("json")]
    shown += [json.loads(text.partition("\n\n")[2]) for text in blocks("http")]
    assert len(shown) >= 2
    for arguments in shown:
        assert RecallRequest.model_validate(arguments).query
