"""`meeseeks store enrich`: a model writes cues for memories that have none; killed and restarted, nothing is lost."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.cue_models import CueModel
from tests.support.forked import Forked
from tests.support.stack import environment
from tests.support.upstream_thread import upstream_thread

NUMBER = 60
DELAY = 0.15


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return command_line(tmp_path)


def filled(shell: CommandLine, tmp_path: Path, number: int = NUMBER) -> None:
    lines = [json.dumps({"id": f"m{n}", "content": f"Barge {n} was sold to harbour {n}"}) for n in range(number)]
    (tmp_path / "m.jsonl").write_text("\n".join(lines), encoding="utf-8")
    shell.ok("import", str(tmp_path / "m.jsonl"))


def exported(shell: CommandLine) -> dict[str, list[dict[str, Any]]]:
    memories = map(json.loads, shell.ok("export").splitlines())
    return {memory["id"]: memory.get("cues", []) for memory in memories}


ENRICH = ("enrich", "--model", "openai/scripted")


def at(url: str, folder: Path, **more: str) -> CommandLine:
    """Commands that use the model server at `url`."""
    return command_line(folder, MEESEEKS_MODEL_API_BASE=f"{url}/v1", **more)


def test_memories_get_cues_once_and_keep_those_they_were_given(shell: CommandLine, tmp_path: Path) -> None:
    filled(shell, tmp_path, 7)
    shell.ok("update", "m3", "--cue", "which barge went to harbour three?")
    writer = CueModel()
    with upstream_thread(writer) as upstream:
        shell = at(upstream.url, tmp_path)
        refused = shell.run(*ENRICH)
        assert refused.exit_code == 1
        assert "6 memories, 2 calls of openai/scripted" in refused.output
        assert "--yes" in refused.output
        assert not writer.asked
        done = shell.json(*ENRICH, "--yes", "--limit", "2")
        assert (done["enriched"], done["cues"], done["planned"]["memories"]) == (2, 4, 2)
        done = shell.json(*ENRICH, "--yes")
        assert (done["enriched"], done["left"], done["stopped"]) == (4, 0, None)
        assert done["input_tokens"] > 0
        assert shell.json(*ENRICH, "--yes")["planned"]["memories"] == 0
    assert set(writer.asked.values()) == {1}
    cues = exported(shell)
    assert [cue["text"] for cue in cues["m3"]] == ["which barge went to harbour three?"]
    assert cues["m1"] == [
        {"text": "who knows Barge 1 was sold to harbour 1?", "origin": "model", "prompt": "cues@1"},
        {"text": "prepare Barge 1 was sold to harbour 1", "origin": "model", "prompt": "cues@1"},
    ]
    found = shell.json("recall", "who knows of barge 1?")
    assert found["memories"][0]["id"] == "m1"


def test_killed_and_started_again_it_loses_and_repeats_nothing(shell: CommandLine, tmp_path: Path) -> None:
    filled(shell, tmp_path)
    writer = CueModel(DELAY)
    with upstream_thread(writer) as upstream:
        shell = at(upstream.url, tmp_path)
        line = ["--data-dir", str(tmp_path / "data"), *ENRICH, "--yes"]
        variables = environment(MEESEEKS_EMBEDDER="none", **shell.variables)
        running = Forked(line, tmp_path, variables, out=tmp_path / "out", log=tmp_path / "log")
        until = time.monotonic() + 60
        while len(writer.asked) < NUMBER // 2 and time.monotonic() < until:
            time.sleep(0.01)
        running.kill()
        running.wait(10)
        written = {key for key, cues in exported(shell).items() if cues}
        assert 0 < len(written) < NUMBER
        before = Counter(writer.asked)
        done = shell.json(*ENRICH, "--yes")
    assert done["planned"]["memories"] == NUMBER - len(written)
    cues = exported(shell)
    assert all(len(found) == 2 for found in cues.values())
    again = {note for note, times in writer.asked.items() if times > before[note]}
    assert again == {f"Barge {n} was sold to harbour {n}" for n in range(NUMBER) if f"m{n}" not in written}


def test_an_unusable_answer_costs_only_the_memory_that_it_is_about(shell: CommandLine, tmp_path: Path) -> None:
    filled(shell, tmp_path, 5)
    with upstream_thread(CueModel(broken="Barge 2 ")) as upstream:
        done = at(upstream.url, tmp_path).json(*ENRICH, "--yes")
    assert (done["enriched"], done["left"], done["stopped"]) == (4, 1, None)
    assert [key for key, cues in exported(shell).items() if not cues] == ["m2"]


def test_a_new_prompt_can_redo_its_predecessor_s_cues(shell: CommandLine, tmp_path: Path) -> None:
    filled(shell, tmp_path, 2)
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "triage.md").write_text("---\nid: triage\nversion: 9\nextends: triage\n---\n", encoding="utf-8")
    text = "---\nid: cues\nversion: 2\nextends: cues\n---\n"
    with upstream_thread(CueModel()) as upstream:
        at(upstream.url, tmp_path).json(*ENRICH, "--yes")
        (prompts / "cues.md").write_text(text, encoding="utf-8")
        other = at(upstream.url, tmp_path, MEESEEKS_PROMPTS_DIR=str(prompts))
        assert other.json(*ENRICH, "--yes")["planned"]["memories"] == 0
        assert other.json(*ENRICH, "--yes", "--redo")["enriched"] == 2
        assert other.json(*ENRICH, "--yes", "--redo")["planned"]["memories"] == 0
    assert {cue["prompt"] for cues in exported(shell).values() for cue in cues} == {"cues@2"}


def test_without_a_model_or_a_price_it_says_what_to_do(shell: CommandLine, tmp_path: Path) -> None:
    filled(shell, tmp_path, 1)
    assert "set `model`, or use --model" in shell.run("enrich", "--yes").output
    refused = at("http://127.0.0.1:9", tmp_path).run(*ENRICH, "--yes", "--max-cost", "1")
    assert "use --limit" in refused.output


def test_a_model_that_cannot_be_reached_ends_the_run(shell: CommandLine, tmp_path: Path) -> None:
    filled(shell, tmp_path, 30)
    done = at("http://127.0.0.1:9", tmp_path).json(*ENRICH, "--yes", exit_code=1)
    assert done["enriched"] == 0
    assert "cannot be reached" in done["stopped"]
