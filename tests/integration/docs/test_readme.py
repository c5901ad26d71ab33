"""The commands in the README do what the text around them says."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands(name: str) -> list[list[str]]:
    """Return the arguments of every `meeseeks <name>` line."""
    lines = re.findall(rf"^meeseeks ({name} .*?)(?:\s{{2,}}#.*)?$", README, re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_what_is_remembered_is_injected_for_the_message_that_follows(tmp_path: Path) -> None:
    shell = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
    (remember,), (inject,) = commands("remember"), commands("inject")
    shell.ok(*remember)
    result = shell.json(*inject)
    assert result["outcome"] == "injected"
    assert [item["text"] for item in result["items"]] == [remember[1]]
    assert result["receipt_id"] in shell.ok("receipt", "--json")


ANSWERS = {
    "Where does Mia live?": "Mia lives in Zurich",
    "what's the wifi password?": "The wifi code is swordfish42",
    "When is the dentist appointment?": "Our dentist is Dr. Weber, Monday 10:30",
}


FIRST = {
    "What should I cook for Tyler tonight?": ("Tyler is lactose intolerant", "--entity", "Tyler"),
    "When do login sessions expire?": ("Login sessions expire after 30 minutes of inactivity",),
    "What is Lena allergic to?": ("Lena is allergic to peanuts",),
}


@pytest.mark.parametrize("message", FIRST)
def test_the_only_memory_is_injected_for_a_question_about_it(message: str, tmp_path: Path) -> None:
    shell = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
    shell.ok("remember", *FIRST[message])
    assert injected(shell, message) == [FIRST[message][0]]


def test_direct_questions_are_answered_on_the_first_day(tmp_path: Path) -> None:
    shell = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
    asked, *others = ANSWERS
    shell.ok("remember", ANSWERS[asked])
    assert injected(shell, asked) == [ANSWERS[asked]]
    for message in others:
        shell.ok("remember", ANSWERS[message])
    for message, memory in ANSWERS.items():
        assert injected(shell, message) == [memory]


def test_a_direct_question_is_answered_among_a_thousand_memories(tmp_path: Path) -> None:
    shell = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
    others = tmp_path / "others.jsonl"
    files = sorted((ROOT / "training").glob("*/*/memories.jsonl"))
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    every = sorted({json.loads(line)["content"] for line in lines}, key=len)
    texts = every[:3000:3]  # nearly as short as the memory that is asked for
    assert len(texts) == 1000
    others.write_text("".join(json.dumps({"content": text}) + "\n" for text in texts), encoding="utf-8")
    shell.ok("import", str(others))
    asked = next(iter(ANSWERS))
    shell.ok("remember", ANSWERS[asked])
    assert injected(shell, asked) == injected(shell, asked.lower()) == [ANSWERS[asked]]


def test_a_memory_of_a_project_reaches_only_requests_in_it(tmp_path: Path) -> None:
    shell = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
    question = "Where does Mia live?"
    shell.ok("remember", ANSWERS[question], "--project", "family")
    assert injected(shell, question, "--project", "family") == [ANSWERS[question]]
    assert injected(shell, question, "--session", "other") == []
    assert "project family" in shell.ok("list", "--project", "family")


def injected(shell: CommandLine, message: str, *options: str) -> list[str]:
    return [item["text"] for item in shell.json("inject", message, *options)["items"]]
