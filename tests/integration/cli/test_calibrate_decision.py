"""`meeseeks eval calibrate-decision` on a labelled world, with a model over HTTP that half knows the labels."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.docs_commands import lines_of
from tests.support.http_double import HttpDouble, Seen, running_http_double
from tests.support.paths import ROOT
from worker.triage.decision_scale import FILE

WORLD = ROOT / "prompts" / "cases" / "backend-team"
MODEL = "ollama/tev1:0.8b"
PAGE = ROOT / "docs/triage.md"


def labels() -> dict[str, set[str]]:
    """The texts of the relevant memories by each task's message."""
    texts = {m["id"]: m["content"] for m in map(json.loads, (WORLD / "memories.jsonl").read_text().splitlines())}
    tasks = map(json.loads, (WORLD / "tasks.jsonl").read_text().splitlines())
    return {task["message"]: {texts[key] for key in (*task["essential"], *task["useful"])} for task in tasks}


def overconfident(seen: Seen) -> Any:
    """Relevant memories get .86 to .96, others .70 to .90: a model whose scale is wrong and whose order is not."""
    state, questions = seen.body["state"], seen.body["questions"]
    relevant = next((texts for message, texts in LABELS.items() if json.dumps(message)[1:40] in state), set())
    answers = {}
    for key, question in questions.items():
        text = question["instructions"]
        noise = int(hashlib.sha256(text.encode()).hexdigest()[:4], 16) / 0xFFFF
        hit = any(json.dumps(each, ensure_ascii=False)[1:60] in text for each in relevant)
        answers[key] = {"type": "noul", "noul": 0.86 + 0.10 * noise if hit else 0.70 + 0.20 * noise}
    return {"model": "tev1", "answers": answers, "usage": {"input_tokens": 100, "output_tokens": 0}}


LABELS = labels()


@pytest.fixture
def server() -> Iterator[HttpDouble]:
    with running_http_double() as double:
        double.respond = overconfident
        yield double


@pytest.fixture
def line(tmp_path: Path, server: HttpDouble) -> CommandLine:
    return command_line(tmp_path, MEESEEKS_EMBEDDER="minilm", MEESEEKS_MODEL_API_BASE=server.url)


def test_a_scale_is_fitted_to_labels_and_kept(line: CommandLine, server: HttpDouble, tmp_path: Path) -> None:
    arguments = ("calibrate-decision", MODEL, "--worlds", str(WORLD), "--tasks", "120")
    dry = line.json(*arguments)
    assert dry["written"] is None
    assert dry["failed"] == 0
    assert dry["answers"] > dry["tasks"] > 20
    before, after = dry["before"]["effect"], dry["after"]["effect"]
    assert before["clean"] == 0.0  # at .5 it keeps everything
    assert after["clean"] >= 0.97
    assert after["precision"] > before["precision"] + 0.2
    assert after["log_loss"] < before["log_loss"] / 2
    asked = len(server.seen)
    (shown,) = [words for words in lines_of(PAGE) if "calibrate-decision" in words]
    assert shown[-3:] == ["--worlds", "prompts/cases", "--write"]
    done = line.json(*shown[:-2], str(WORLD), "--tasks", "120", "--write")
    assert done["after"] == dry["after"]
    assert len(server.seen) == 2 * asked
    saved = json.loads((tmp_path / "data" / FILE).read_text(encoding="utf-8"))
    assert saved[MODEL]["threshold"] == done["after"]["threshold"]
    assert "before" in line.ok(*arguments, "--tasks", "60")


def test_a_model_that_is_no_decision_model_is_told_at_once(line: CommandLine, server: HttpDouble) -> None:
    server.respond = None
    server.answer({"error": {"message": "This model is not a decision model"}}, 501)
    result = line.run("calibrate-decision", MODEL, "--worlds", str(WORLD), "--tasks", "100")
    assert result.exit_code == 1
    assert "tasks failed; first error" in result.output
    assert len(server.seen) < 30
