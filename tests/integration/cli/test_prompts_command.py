"""`meeseeks prompts`: a prompt comes into use when it has proved itself, and not before."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.oracle import heeding
from tests.support.upstream import Responder
from tests.support.upstream_thread import upstream_thread
from tests.support.worlds import copy_part
from worker.triage.prompt_files import default_prompts_dir, load_prompts
from worker.tuning.evals.promotion import FORMER, RECORD
from worker.tuning.labelled_worlds import read_world

CASES = default_prompts_dir() / "cases"
SHIPPED = (default_prompts_dir() / "triage.md").read_text(encoding="utf-8")
WORLD = "community-bot"
CAREFUL, CARELESS = "Be careful.", "Be careless."


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    copy_part(CASES / WORLD, tmp_path / "part", every=2, memories=50)
    return command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")


def version(number: int, words: str = "") -> str:
    return SHIPPED.replace("version: 2", f"version: {number}").replace("Rules:", f"{words}\nRules:")


def obedient() -> Responder:
    """Chooses right where the prompt tells it to be careful."""
    return heeding(read_world(CASES / WORLD), CAREFUL)


def promoting(url: str, *more: str) -> tuple[str, ...]:
    model = ("--model", "openai/scripted", "--model-api-base", f"{url}/v1")
    return ("prompts", "promote", "new.md", "--to", "own", *model, "--worlds", "part", "--deadline-ms", "60000", *more)


@pytest.mark.slow
def test_a_better_prompt_is_promoted_and_a_worse_one_is_not(shell: CommandLine, tmp_path: Path) -> None:
    own = tmp_path / "own"
    with upstream_thread(obedient()) as upstream:
        (tmp_path / "new.md").write_text(version(3, CARELESS), encoding="utf-8")
        refused = shell.json(*promoting(upstream.url), exit_code=1)
        assert refused["promoted_to"] is None
        assert refused["refused_for"] == ["no measure is better"]
        assert not own.exists()

        (tmp_path / "new.md").write_text(version(4, CAREFUL), encoding="utf-8")
        done = shell.json(*promoting(upstream.url))
        assert done["measures"]["precision"]["standing"] == "better"
        assert done["measures"]["precision"]["low"] > 0
        assert (done["refused_for"], done["forced"]) == ([], None)
        assert load_prompts(own)["triage"].version == 4

        (tmp_path / "new.md").write_text(version(5), encoding="utf-8")
        worse = shell.json(*promoting(upstream.url), exit_code=1)
        assert "precision: worse" in worse["refused_for"]
        assert load_prompts(own)["triage"].version == 4
        assert "--force" in shell.run(*promoting(upstream.url)).output

        forced = shell.json(*promoting(upstream.url, "--force", "the law asks for it"))
        assert forced["forced"] == "the law asks for it"
        assert load_prompts(own)["triage"].version == 5
    lines = [json.loads(line) for line in (own / RECORD).read_text(encoding="utf-8").splitlines()]
    assert [(line["prompt"], line["replaces"], line["forced"]) for line in lines] == [
        ("triage@4", "triage@2", None),
        ("triage@5", "triage@4", "the law asks for it"),
    ]
    assert "precision: worse" in lines[1]["refused_for"]
    (former,) = (own / FORMER).iterdir()
    assert former.name.startswith("triage@4-")
    assert CAREFUL in former.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (SHIPPED, ("--to", "own"), "this prompt is already in force"),
        (version(2, "Other words."), ("--to", "own"), "version 2 must be higher than 2"),
        (version(3), (), "name a folder of your own"),
        (version(3), ("--to", "own"), "without a model no prompt is used"),
        (version(3), ("--to", "own", "--force", " "), "--force: give a reason"),
        (version(3).replace("{{candidates}}", "none", 1), ("--to", "own"), "does not use {{candidates}}"),
        (SHIPPED.replace("id: triage", "id: other"), ("--to", "own"), "without a model no prompt is used"),
        (
            version(3).replace("# Results", "# Found").replace("id: triage", "id: other"),
            ("--to", "own"),
            "not a prompt that",
        ),
        ("no front matter", ("--to", "own"), "must start with front matter"),
    ],
)
def test_what_cannot_be_promoted_is_said(
    shell: CommandLine, tmp_path: Path, text: str, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "new.md").write_text(text, encoding="utf-8")
    assert words in shell.json("prompts", "promote", "new.md", *arguments, exit_code=1)["error"]
    assert not (tmp_path / "own").exists()


PARTIAL = "---\nid: triage\nversion: 3\nextends: base\n---\n# Search\nLook once more.\n"


def test_what_would_extend_something_else_where_it_goes_is_not_promoted(shell: CommandLine, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "new.md").write_text(PARTIAL, encoding="utf-8")
    promote = ("prompts", "promote", "new.md", "--to", "own")
    base = SHIPPED.replace("id: triage", "id: base")
    assert "no prompt with that id exists" in shell.json(*promote, exit_code=1)["error"]
    (tmp_path / "base.md").write_text(base, encoding="utf-8")
    assert "cannot install" in shell.json(*promote, exit_code=1)["error"]
    (own / "base.md").write_text(base.replace("Rules:", "Other rules:"), encoding="utf-8")
    assert "the prompt it extends differs in own" in shell.json(*promote, exit_code=1)["error"]
    shutil.copy(tmp_path / "base.md", own)
    assert "without a model no prompt is used" in shell.json(*promote, exit_code=1)["error"]
    (tmp_path / "base.md").unlink()
    assert "without a model no prompt is used" in shell.json(*promote, exit_code=1)["error"]
    (own / "triage.md").write_text(base.replace("id: base", "id: usual"), encoding="utf-8")
    assert "contains another prompt, 'usual'" in shell.json(*promote, exit_code=1)["error"]


def test_lint_says_what_is_wrong_and_where(shell: CommandLine, tmp_path: Path) -> None:
    assert shell.json("prompts", "lint").values()
    (tmp_path / "warm.md").write_text(version(2).replace("temperature: 0.0", "temperature: 0.9"), encoding="utf-8")
    (tmp_path / "broken.md").write_text("---\nid: triage\n---\n", encoding="utf-8")
    found = shell.json("prompts", "lint", "warm.md")
    assert [one["severity"] for one in found["warm.md"]] == ["warning"]
    found = shell.json("prompts", "lint", "warm.md", "broken.md", exit_code=1)
    assert [one["severity"] for one in found["broken.md"]] == ["error"]
    assert "version" in found["broken.md"][0]["words"]
    assert "no problems found" in shell.ok("prompts", "lint")
