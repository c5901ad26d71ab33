"""`meeseeks eval cues`: what a model's cues bring on labelled tasks, with a scripted and with the tiny local model."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import command_line
from tests.support.local_llm import MISSING, SKIP_REASON, local_llm
from tests.support.paths import ROOT
from tests.support.upstream import Answer, last_text
from tests.support.upstream_thread import upstream_thread
from tests.support.worlds import copy_part

WORLD = "research-lab"
FOLDER = ROOT / "prompts/cases"
EVAL = ("eval", "cues", "--world", WORLD, "--model", "openai/scripted")


def written_cues() -> dict[str, list[str]]:
    """The world's shipped cues by the text of their memory, as a good model would write them."""
    lines = [json.loads(line) for line in (FOLDER / WORLD / "memories.jsonl").read_text("utf-8").splitlines()]
    texts = {line["id"]: line["content"] for line in lines}
    cues = [json.loads(line) for line in (FOLDER / WORLD / "cues.jsonl").read_text("utf-8").splitlines()]
    return {_key(texts[line["id"]]): line["cues"][:6] for line in cues}


def _key(text: str) -> str:
    return re.sub(r"\W+", "", text)[:60]


def good_model(body: dict[str, Any]) -> Answer:
    known = written_cues()
    notes = re.findall(r"^\[(\d+)\] (.*)$", last_text(body), re.MULTILINE)
    return Answer(json.dumps({number: known.get(_key(json.loads(note)), []) for number, note in notes}))


def test_good_cues_find_more_and_useless_ones_change_nothing(tmp_path: Path) -> None:
    world = copy_part(FOLDER / WORLD, tmp_path / "part", every=2, memories=50)
    with upstream_thread(good_model) as upstream:
        shell = command_line(tmp_path, MEESEEKS_MODEL_API_BASE=f"{upstream.url}/v1")
        done = shell.json(*EVAL, "--cases", str(world))
    assert (done["worlds"], done["prompt"], done["stopped"]) == ([WORLD], "cues@1", None)
    assert done["enriched"] > 40
    assert done["effect"]["tasks"] == 25
    before, after = (done["effect"][name]["cosine"] for name in ("before", "after"))
    assert after["recall"] > before["recall"], "text and cues together, by meaning alone"
    assert before["clean"] >= 0.96
    assert after["clean"] >= 0.96
    assert set(done["effect"]["after"]) == {"relevance model", "cosine"}
    with upstream_thread(lambda _: Answer("I would rather not.")) as upstream:
        shell = command_line(tmp_path, MEESEEKS_MODEL_API_BASE=f"{upstream.url}/v1")
        done = shell.json(*EVAL, "--cases", str(world), exit_code=1)
    assert "no cues in a known form" in done["stopped"]
    assert done["effect"]["before"] == done["effect"]["after"]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    shell = command_line(tmp_path)
    assert "no labelled world is called atlantis" in shell.run(*EVAL[:2], "--world", "atlantis").output
    assert "set `model`, or use --model" in shell.run(*EVAL[:4]).output


CASES = [
    {"id": "m1", "content": "Dana likes Osteria Lume best"},
    {"id": "m2", "content": "Staging listens on port 9443"},
    {"id": "t1", "message": "Where does Dana like to eat?", "essential": ["m1"]},
    {"id": "t2", "message": "Translate this sentence to Polish: the train is late"},
]


@pytest.mark.skipif(bool(MISSING), reason=SKIP_REASON)
def test_the_tiny_local_model_runs_the_whole_path(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, CASES)), encoding="utf-8")
    with local_llm() as server:
        shell = command_line(tmp_path, MEESEEKS_MODEL_API_BASE=server.url, MEESEEKS_MODEL_API_KEY="k")
        done = shell.json("eval", "cues", "--cases", str(tmp_path / "cases.jsonl"), "--model", "openai/tiny")
    assert done["stopped"] is None
    assert done["cues"] > 0, "at least one of two memories has a cue that could be read"
    assert done["effect"]["tasks"] == 2
