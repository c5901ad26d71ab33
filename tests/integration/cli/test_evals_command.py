"""`meeseeks eval` and `meeseeks compare` as people and programs use them, and what docs/evaluation.md gives to copy."""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.stack import ROOT
from worker.tuning.evals.measures import Measure

PAGE = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
WORLD = ("--world", "research-lab")
PLAIN = ("--strategy", "deterministic", *WORLD, "--parallel", "1")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


class Parts(HTMLParser):
    """The tags of a page, and every address in it; an element that is not closed is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "data")]
        if tag not in ("meta", "br", "line", "circle", "polyline"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_an_evaluation_is_told_kept_and_compared(shell: CommandLine, tmp_path: Path) -> None:
    first = shell.json("eval", *PLAIN)
    assert len(first["runs"]) == 50
    measures = first["measures"][""]
    assert set(measures) == {measure.value for measure in Measure}
    assert all(one["low"] <= one["value"] <= one["high"] for one in measures.values() if one["low"] is not None)
    assert measures["tokens_per_turn"]["value"] == 0
    assert set(first["measures"]) > {"", "single", "hard_negative"}
    second = shell.json("eval", *PLAIN, "--set", "max_items=1", "--html", "page.html")
    assert second["setup"]["settings"]["max_items"] == 1
    assert max(len(run["injected"]) for run in second["runs"]) == 1

    found = shell.json("compare", first["id"][:6], second["id"], "--html", "changes.html")
    items = found["differences"]["items_per_turn"]
    assert items["difference"] == pytest.approx(items["after"] - items["before"])
    assert items["low"] <= items["difference"] <= items["high"] <= 0
    changed = {(change["world"], change["task"]) for change in found["changes"]}
    several = {("research-lab", run["task"]) for run in first["runs"] if len(run["injected"]) > 1}
    assert changed == several
    for name in ("page.html", "changes.html"):
        parts = Parts((tmp_path / name).read_text(encoding="utf-8"))
        assert parts.addresses == []
        assert not {"script", "link", "iframe", "img"} & set(parts.tags)
        assert {"svg", "table"} <= set(parts.tags)

    (tmp_path / "saved.json").write_text(json.dumps(first), encoding="utf-8")
    text = shell.ok("compare", "saved.json", first["id"])
    assert "0 tasks changed" in text
    assert "same" in text


def test_a_page_shows_text_as_text(shell: CommandLine, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": "m1", "content": "Ahoy <script>alert(1)</script> & harbour", "created_at": "2026-01-10"},
        {"id": "q1", "message": "Which <b>harbour</b>?", "essential": ["m1"]},
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    shell.ok("eval", "--strategy", "deterministic", "--cases", "cases.jsonl", "--html", "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "script" not in Parts(page).tags
    assert "<b>harbour" not in page


def test_people_get_tables(shell: CommandLine) -> None:
    text = shell.ok("eval", *PLAIN)
    assert "recall of essential" in text
    assert "hard_negative" in text
    assert re.search(r"\d\.\d{3} \(\d\.\d{3} to \d\.\d{3}\)", text)
    assert "50 runs, 0 of them known before" in text
    assert "of them known before" in shell.ok("eval", *PLAIN)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("eval", "--set", "max_items"), "say KEY=VALUE"),
        (("eval", "--set", "max_itms=3"), "did you mean max_items"),
        (("eval", "--worlds", "a", "--cases", "b"), "either --worlds or --cases"),
        (("eval", "--cases", "nowhere.jsonl"), "there is nothing at nowhere.jsonl"),
        (("eval", "--prompt", "nowhere.md"), "cannot be read"),
        (("eval", "--strategy", "llm"), "no model to ask"),
        (("compare", "abc", "def"), "there is no evaluation and no file 'abc'"),
        (("compare", "../x", "def"), "there is no evaluation and no file"),
        (("compare", "bad.json", "bad.json"), "no report of `meeseeks eval`"),
    ],
)
def test_what_is_wrong_is_said(shell: CommandLine, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    assert words in shell.json(*arguments, exit_code=1)["error"]


def test_what_the_documentation_gives_to_copy_runs(shell: CommandLine, tmp_path: Path) -> None:
    for line in "".join(blocks("sh")).splitlines():
        arguments = shlex.split(line)[1:]
        shell.ok(*arguments, *(WORLD if arguments[0] == "eval" else ()))
    assert (tmp_path / "report.html").is_file()
    (tmp_path / "cases.jsonl").write_text(blocks("jsonl")[0], encoding="utf-8")
    report = shell.json("eval", "--strategy", "deterministic", "--cases", "cases.jsonl")
    assert {run["task"]: run["injected"] for run in report["runs"]} == {"q1": ["m1"], "q2": []}


def test_every_measure_and_option_is_explained() -> None:
    assert not [measure.value for measure in Measure if f"`{measure.value}`" not in PAGE]
    named = ("--repeat", "--parallel", "--max-cost", "--deadline-ms", "--fresh", "--set", "--strategy", "--world")
    assert not [option for option in named if f"`{option}" not in PAGE]
