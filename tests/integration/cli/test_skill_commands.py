"""Every command of the Memory Search skill is run, and its worked examples bring what they say."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.unit.docs.test_skill import SKILL, blocks

NOTES = [
    {"id": "lactose", "content": "Tyler is lactose intolerant", "entities": ["Tyler"], "created_at": "2025-09-20"},
    {
        "id": "mozza",
        "content": "Tyler loves Osteria Mozza, his favourite restaurant; went there for the anniversary dinner",
        "entities": ["Tyler"],
        "created_at": "2025-11-10",
    },
    {"id": "staging-port", "content": "Staging listens on port 8080", "entities": ["staging"]},
    {"id": "wrong-note", "content": "The moon is made of cheese"},
    {
        "id": "sarah",
        "content": "Sarah wants numbers first and no slides",
        "type": "mental_model",
        "entities": ["Sarah"],
    },
]


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    shell = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in NOTES), encoding="utf-8")
    shell.ok("import", str(tmp_path / "notes.jsonl"))
    return shell


def commands() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    lines += re.findall(r"`(meeseeks \w[^`]+ [^`]+)`", (SKILL / "SKILL.md").read_text(encoding="utf-8"))
    return [shlex.split(line)[1:] for line in lines]


def test_every_command_runs(shell: CommandLine) -> None:
    shown = commands()
    assert len(shown) >= 14
    assert {arguments[0] for arguments in shown} == {"search", "remember", "forget"}
    for arguments in shown:
        shell.ok(*arguments)


def test_the_worked_example_brings_what_it_says(shell: CommandLine) -> None:
    restrictions, favourite, *_ = [arguments for arguments in commands() if arguments[2:] == ["--entity", "Tyler"]]
    assert shell.json(*restrictions)["memories"][0]["id"] == "lactose"
    assert shell.json(*favourite)["memories"][0]["id"] == "mozza"
    models = shell.json("recall", "how Sarah works", "--entity", "Sarah", "--type", "mental_model")["memories"]
    assert [hit["id"] for hit in models] == ["sarah"]


def test_what_was_replaced_is_seen_with_history_alone(shell: CommandLine) -> None:
    (replacing,) = [arguments for arguments in commands() if "--supersedes" in arguments]
    shell.ok(*replacing)
    now = {hit["id"]: hit for hit in shell.json("recall", "staging port")["memories"]}
    assert "staging-port" not in now
    before = {hit["id"]: hit for hit in shell.json("recall", "staging port", "--history")["memories"]}
    assert before["staging-port"]["superseded_by"] in now


def test_whose_memories_are_searched_is_said_by_the_environment(shell: CommandLine, tmp_path: Path) -> None:
    notes = [
        {"id": "oscars", "content": "The locker is number 77", "scope": {"user": "oscar"}},
        {"id": "boats", "content": "The locker of the boat is number 12", "scope": {"project": "boat"}},
    ]
    (tmp_path / "owned.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes), encoding="utf-8")
    shell.ok("import", str(tmp_path / "owned.jsonl"))
    own = {"MEESEEKS_EMBEDDER": "minilm", "MEESEEKS_USER": "oscar", "MEESEEKS_PROJECT": "boat"}

    def found(shell: CommandLine, *options: str) -> set[str]:
        hits = shell.json("recall", "locker number", *options)["memories"]
        return {hit["id"] for hit in hits} & {"oscars", "boats"}

    assert found(shell) == set()
    assert found(shell, "--user", "oscar") == {"oscars"}
    assert found(shell, "--project", "boat") == {"boats"}
    assert found(command_line(tmp_path, **own)) == {"oscars", "boats"}
    assert found(command_line(tmp_path, **own, MEESEEKS_TENANT="globex")) == set()
