"""`meeseeks eval relevance`, and what `meeseeks doctor` says of the model; real store, real embedder."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.paths import ROOT
from tests.support.service import fact
from tests.support.upstream import keeping
from tests.support.upstream_thread import upstream_thread
from tests.support.worlds import copy_part
from worker.adapters.models import relevance_file
from worker.adapters.models.relevance_file import CARD, NUMBERS, find_folder, read_relevance_model

WORLDS = ROOT / "prompts/cases"


class TestDoctor:
    """What is said of a relevance model that is missing, broken, or made for something else; each says what to do."""

    @staticmethod
    def finding(line: CommandLine, *, healthy: bool = True) -> str:
        told = line.json("doctor", "--quick", exit_code=1)
        checks = {check["name"]: check for check in told["checks"]}
        assert checks["relevance model"]["ok"] is healthy
        assert "not running, so hooks bring no memory" in checks["service"]["detail"]
        used = str(checks["relevance model"]["detail"]).startswith("version")
        assert ("the relevance model decides" in checks["model"]["detail"]) is used
        return str(checks["relevance model"]["detail"])

    @pytest.fixture
    def line(self, tmp_path: Path) -> CommandLine:
        return command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Another relevance model, installed before the one that ships."""
        package = tmp_path / "site/meeseeks_relevance"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        shipped = find_folder()
        assert shipped is not None
        for name in (CARD, NUMBERS):
            shutil.copy(shipped / name, package)
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        monkeypatch.delitem(sys.modules, "meeseeks_relevance", raising=False)
        return package

    @pytest.mark.parametrize(
        ("strategy", "told"),
        [
            ("deterministic", "none: the search score decides"),
            ("relevance", "none: the relevance model decides"),
            ("auto", "none: the relevance model decides (set MEESEEKS_MODEL to use one)"),
        ],
    )
    def test_settings_can_leave_it_or_other_models_out(
        self, line: CommandLine, tmp_path: Path, strategy: str, told: str
    ) -> None:
        file = tmp_path / "meeseeks.toml"
        file.write_text(f'[memory_injection]\nstrategy = "{strategy}"\n', encoding="utf-8")
        checks = {
            check["name"]: check
            for check in line.json("--config", str(file), "doctor", "--quick", exit_code=1)["checks"]
        }
        assert checks["relevance model"]["detail"].startswith("version")
        assert checks["model"]["detail"] == told

    def test_a_sound_one_says_its_version(self, line: CommandLine, folder: Path) -> None:
        assert self.finding(line) == f"version {read_relevance_model(folder).relevance_model.version}"

    def test_missing_files(self, line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(relevance_file, "CARD", "nowhere.json")
        found = self.finding(line)
        assert found.startswith("off: ")
        assert "`pip install meeseeks-relevance`" in found

    def test_a_file_that_is_not_that_of_its_card(self, line: CommandLine, folder: Path) -> None:
        with (folder / NUMBERS).open("ab") as file:
            file.write(b"x")
        found = self.finding(line, healthy=False)
        assert "model.npz has sha256" in found
        assert "`pip install --force-reinstall meeseeks-relevance`" in found
        assert "search scores are used instead" in found

    def test_a_form_that_this_service_cannot_read(self, line: CommandLine, folder: Path) -> None:
        card = json.loads((folder / CARD).read_text())
        (folder / CARD).write_text(json.dumps(card | {"format": 99}))
        assert "update the service" in self.finding(line, healthy=False)

    def test_another_embedder(self, tmp_path: Path) -> None:
        found = self.finding(command_line(tmp_path, MEESEEKS_EMBEDDER="none"))
        assert "it requires the embedder all-MiniLM-L6-v2-int8, but the embedder is none" in found
        assert "service.embedder = minilm" in found

    def test_what_was_fitted(self, line: CommandLine, tmp_path: Path) -> None:
        version = read_relevance_model().relevance_model.version
        saved = tmp_path / "data/judge.json"
        saved.parent.mkdir()
        saved.write_text(json.dumps({version: {"scale": 1.0, "head": 0.0, "shift": 0.5}}))
        assert self.finding(line) == f"version {version}, fitted to your labels"
        saved.write_text(json.dumps({"0": {"scale": 1.0, "head": 0.0, "shift": 0.5}}))
        assert "your fit is for version 0: run `meeseeks eval calibrate --cases` again" in self.finding(line)
        saved.write_text("{")
        assert "delete it" in self.finding(line, healthy=False)


class TestCommands:
    def test_show_tells_what_it_is(self, tmp_path: Path) -> None:
        line = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
        shown = line.json("relevance", "show")
        assert shown["sha256"] == read_relevance_model().card["sha256"]
        assert shown["fitted"] is None
        assert set(shown["thresholds"]) == {"cautious", "balanced", "generous"}
        assert "thresholds" in line.ok("relevance", "show")

    def test_labels_are_measured_and_fitted(self, tmp_path: Path) -> None:
        line = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
        world = str(copy_part(WORLDS / "research-lab", tmp_path / "part", every=2, memories=50, cues=3))
        measured = line.json("relevance", "eval", "--cases", world)
        assert measured["cautious"]["clean"] >= measured["generous"]["clean"]
        cued = line.json("relevance", "eval", "--cases", world, "--cues")
        assert cued["balanced"]["recall"] > measured["balanced"]["recall"]
        dry = line.json("relevance", "fit", "--cases", world)
        assert dry["tasks"] == 25
        assert dry["written"] is None
        done = line.json("relevance", "fit", "--cases", world, "--write")
        assert done["change"] == dry["change"]
        assert line.json("relevance", "show")["fitted"] == (done["change"] if done["helps"] else None)

    def test_it_is_set_beside_the_scores_of_the_search(self, tmp_path: Path) -> None:
        line = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
        world = str(copy_part(WORLDS / "backend-team", tmp_path / "part", every=2, memories=50))
        found = line.json("relevance", "compare", "--cases", world)
        raters = found["raters"]
        assert list(raters) == ["relevance model", "weighted fusion", "cosine"]
        assert raters["relevance model"]["candidates"] > raters["cosine"]["candidates"] > 0.5
        assert raters["relevance model"]["effect"]["clean"] == pytest.approx(
            raters["cosine"]["effect"]["clean"], abs=0.05
        )
        alone = line.json("relevance", "eval", "--cases", world)[found["point"]]
        assert {**raters["relevance model"]["effect"], "loss": None} == {**alone, "loss": None}
        assert found["model"] is None
        assert "weighted fusion" in line.ok("relevance", "compare", "--cases", world)

    def test_a_model_is_asked_about_the_same_tasks_through_the_service(self, tmp_path: Path) -> None:
        towns = ("Aldersund", "Brannik", "Corvale")
        memories = [{"id": town, "content": f"The ferry office of {town} opens at 7:30."} for town in towns]
        asked = [
            {"id": f"t{town}", "message": f"When does the ferry office of {town} open?", "essential": [town]}
            for town in towns
        ]
        cases = tmp_path / "cases.jsonl"
        cases.write_text("\n".join(map(json.dumps, [*memories, *asked, {"id": "none", "message": "Explain monads"}])))
        line = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm", OPENAI_API_KEY="none")
        with upstream_thread(keeping(["Brannik", "Corvale"])) as upstream:
            said = ("relevance", "compare", "--cases", str(cases), "--model-api-base", f"{upstream.url}/v1")
            found = line.json(*said, "--model", "openai/fake")
            assert upstream.chats
            assert "openai/fake" in line.ok(*said, "--model", "openai/fake")
        assert found["model"]["name"] == "openai/fake"
        assert found["model"]["missing"] == 0
        assert 0.3 <= found["model"]["effect"]["recall"] <= 0.7
        assert found["tasks"] == 4
        assert line.json(*said, "--model", "none")["model"] is None

    def test_too_few_labels_are_refused(self, tmp_path: Path) -> None:
        cases = tmp_path / "cases.jsonl"
        lines = [
            fact("a", "The vault opens at noon."),
            {"id": "t1", "message": "When does it open?", "essential": ["a"]},
        ]
        cases.write_text("".join(json.dumps(one) + "\n" for one in lines))
        line = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
        assert "too few" in line.json("relevance", "fit", "--cases", str(cases), exit_code=1)["error"]
