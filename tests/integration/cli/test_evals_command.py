"""`meeseeks eval` and `meeseeks eval compare` as people and programs use them, and docs/evaluation.md examples."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.paths import ROOT
from tests.support.worlds import copy_part
from worker.tuning.evals.measures import Measure

PAGE = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
WORLD = ("--worlds", "part")
"""Where `shell` has put a part of a world."""

PLAIN = ("--strategy", "deterministic", *WORLD, "--parallel", "1")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    copy_part(ROOT / "prompts/cases/research-lab", tmp_path / "part", every=2, memories=50)
    return command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_an_evaluation_is_told_kept_and_compared(shell: CommandLine, tmp_path: Path) -> None:
    first = shell.json("eval", *PLAIN)
    assert len(first["runs"]) == 25
    measures = first["measures"][""]
    assert set(measures) == {measure.value for measure in Measure}
    assert all(one["low"] <= one["value"] <= one["high"] for one in measures.values() if one["low"] is not None)
    assert measures["tokens_per_turn"]["value"] == 0
    assert set(first["measures"]) > {"", "single", "hard_negative"}
    second = shell.json("eval", *PLAIN, "--set", "max_items=1")
    assert second["setup"]["settings"]["max_items"] == 1
    assert max(len(run["injected"]) for run in second["runs"]) == 1

    found = shell.json("compare", first["id"][:6], second["id"])
    items = found["differences"]["items_per_turn"]
    assert items["difference"] == pytest.approx(items["after"] - items["before"])
    assert items["low"] <= items["difference"] <= items["high"] <= 0
    changed = {(change["world"], change["task"]) for change in found["changes"]}
    several = {("research-lab", run["task"]) for run in first["runs"] if len(run["injected"]) > 1}
    assert changed == several

    (tmp_path / "saved.json").write_text(json.dumps(first), encoding="utf-8")
    text = shell.ok("compare", "saved.json", first["id"])
    assert "0 tasks changed" in text
    assert "same" in text


def test_people_get_tables(shell: CommandLine) -> None:
    text = shell.ok("eval", *PLAIN)
    assert "recall of essential" in text
    assert "hard_negative" in text
    assert re.search(r"\d\.\d{3} \(\d\.\d{3} to \d\.\d{3}\)", text)
    assert "25 runs, 0 from cache" in text
    assert "from cache" in shell.ok("eval", *PLAIN)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("eval", "--set", "max_items"), "use KEY=VALUE"),
        (("eval", "--set", "max_itms=3"), "did you mean max_items"),
        (("eval", "--worlds", "a", "--cases", "b"), "either --worlds or --cases"),
        (("eval", "--cases", "nowhere.jsonl"), "no such file or folder: nowhere.jsonl"),
        (("eval", "--prompt", "nowhere.md"), "cannot read nowhere.md"),
        (("eval", "--strategy", "llm"), "no model to ask"),
        (("compare", "abc", "def"), "there is no evaluation or file 'abc'"),
        (("compare", "../x", "def"), "there is no evaluation or file"),
        (("compare", "bad.json", "bad.json"), "not a report of `meeseeks eval`"),
    ],
)
def test_what_is_wrong_is_said(shell: CommandLine, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    assert words in shell.json(*arguments, exit_code=1)["error"]


def test_what_the_documentation_gives_to_copy_runs(shell: CommandLine, tmp_path: Path) -> None:
    for line in "".join(blocks("sh")).splitlines():
        arguments = shlex.split(line)[1:]
        shell.ok(*arguments, *(WORLD if arguments[0] == "eval" else ()))
    (tmp_path / "cases.jsonl").write_text(blocks("json")[0], encoding="utf-8")
    report = shell.json("eval", "--strategy", "deterministic", "--cases", "cases.jsonl")
    assert {run["task"]: run["injected"] for run in report["runs"]} == {"q1": ["m1"], "q2": []}


def test_every_measure_and_option_is_explained() -> None:
    assert not [measure.value for measure in Measure if f"`{measure.value}`" not in PAGE]
    named = ("--repeat", "--parallel", "--max-cost", "--deadline-ms", "--fresh", "--set", "--strategy", "--world")
    assert not [option for option in named if f"`{option}" not in PAGE]


def test_a_model_that_never_answers_is_not_measured(shell: CommandLine, tmp_path: Path) -> None:
    silent = ("--model", "openai/nobody", "--model-api-base", "http://127.0.0.1:1", *WORLD, "--parallel", "8")
    shown = shell.run("eval", *silent)
    assert shown.exit_code == 1
    text = shown.stdout
    assert re.match(r"NOT MEASURED: the model openai/nobody answered 0 of \d+ requests \(model_\w+\)", text)
    report = shell.json("eval", *silent, exit_code=1)
    assert report["fault"].startswith("the model openai/nobody answered 0 of")
    sound = shell.json("eval", *PLAIN)
    assert sound["fault"] is None
    for pair in ((report["id"], sound["id"]), (sound["id"], report["id"])):
        refused = shell.json("compare", *pair, exit_code=1)
        assert f"{report['id']} measures no model: the model openai/nobody answered 0" in refused["error"]
