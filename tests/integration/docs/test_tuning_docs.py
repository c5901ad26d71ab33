"""docs/tuning.md, followed to the letter, with a scripted model in the place of the big one."""

import re
import shlex
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.oracle import heeding
from tests.support.paths import ROOT
from tests.support.stack import background_service, command
from tests.support.upstream import Answer, Responder, candidate_lines
from tests.support.upstream_thread import upstream_thread
from worker.triage.prompt_files import default_prompts_dir, load_prompt, whole_prompt
from worker.tuning.labelled_worlds import read_cases, read_world

PAGE = ROOT / "docs" / "tuning.md"
WARMING = 4
"""Requests that only load the model."""

RESTART = "meeseeks restart"
GROUPS = ("prompts", "eval", "admin")
WORLD, MODEL, RULE = "community-bot", "ollama_chat/qwen3:4b", "only about the same person or topic"


def obedient() -> Responder:
    """Heeds the rule of the tutorial, and knows the answer to its request."""
    answer = heeding(read_world(default_prompts_dir() / "cases" / WORLD), RULE)

    def respond(body: dict[str, Any]) -> Answer:
        if any("Deployments" in line for line in candidate_lines(body).values()):
            return Answer('{"relevant":[1],"sufficient":true}')
        return answer(body)

    return respond


class Reader:
    """Does what the page says, line by line; `ID`, `A` and `B` are what the commands before have printed."""

    def __init__(self, folder: Path, url: str) -> None:
        variables = {"MEESEEKS_EMBEDDER": "minilm", "MEESEEKS_MODEL_API_BASE": f"{url}/v1"}
        self.folder, self.variables = folder, variables
        self.evaluations: list[str] = []
        self.said: dict[str, Any] = {}

    def follow(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        given = dict(word.split("=", 1) for word in words if re.fullmatch(r"MEESEEKS_\w+=.*", word))
        words = [word for word in words if word.split("=")[0] not in given]
        if words[0] == "export":
            self.variables |= {key: self.filled(one) for key, one in given.items()}
        elif words[0] == "meeseeks":
            self.run([self.filled(word) for word in words[1:]], {key: self.filled(one) for key, one in given.items()})
        elif words[0] != "ollama":
            subprocess.run(["sh", "-c", line], cwd=self.folder, check=True, timeout=20)

    def filled(self, word: str) -> str:
        known = {MODEL: "openai/scripted", "ID": self.said.get("receipt_id", "")}
        known |= dict(zip("AB", self.evaluations, strict=False))
        return known.get(word, word)

    def run(self, words: list[str], variables: dict[str, str]) -> None:
        if words == ["restart"]:
            assert command(self.folder, *words, variables=self.variables).returncode == 0
            return
        shell: CommandLine = command_line(self.folder, **self.variables, **variables)
        found = shell.json(*words)
        member = words[0] in GROUPS and not words[1].startswith("-")
        name = words[1] if member else words[0]
        if name == "eval":
            self.evaluations.append(found["id"])
        self.said[name] = found
        if name == "inject":
            self.said["receipt_id"] = found["receipt_id"]


def lines_of_the_page(*, served: bool) -> list[str]:
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"))
    lines = "".join(blocks).splitlines()
    assert RESTART in lines
    return [line for line in lines if served or line != RESTART]


@pytest.mark.slow
@pytest.mark.parametrize("served", [False, True], ids=["alone", "while a service runs"])
def test_the_tutorial_can_be_followed(served: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(default_prompts_dir(), tmp_path / "prompts")
    with ExitStack() as stack:
        upstream = stack.enter_context(upstream_thread(obedient()))
        if served:
            stack.enter_context(background_service(tmp_path))
        reader = Reader(tmp_path, upstream.url)
        for line in lines_of_the_page(served=served):
            asked = len(upstream.chats)
            reader.follow(line)
            assert "promote" not in line or len(upstream.chats) - asked <= WARMING
    draft = load_prompt(tmp_path / "draft.md")
    assert (draft.version, RULE in draft.system) == (3, True)
    assert len(reader.evaluations) == 4
    assert reader.said["inject"]["engine"] == "llm"
    assert reader.said["replay"]["after"]["prompt"] == "triage@3"
    assert [task.essential for task in read_cases(tmp_path / "cases.jsonl").tasks] == [{"deploy"}]
    assert load_prompt(tmp_path / "own" / "triage.md") == draft
    support, _ = whole_prompt(tmp_path / "support.md")
    assert support.system == load_prompt(tmp_path / "prompts" / "triage.md").system
    assert reader.said["eval"]["setup"]["prompt"] == "support@1"
