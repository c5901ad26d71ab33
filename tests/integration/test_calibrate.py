"""`meeseeks calibrate` and `meeseeks recall` on a real store with the real embedder."""

import json
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, command_line
from worker.adapters.minilm import PROFILE
from worker.calibration import FILE, Thresholds, write_calibration

TOWNS = ("Aldersund", "Brannik", "Corvale", "Dremmen", "Eskholm", "Farrow", "Grelling", "Hestad", "Ibsel", "Jorvane")


@pytest.fixture
def commands(tmp_path: Path) -> CommandLine:
    """Commands on a store of twenty memories."""
    line = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
    memories = [
        {
            "id": f"{kind}-{town}",
            "content": f"The {kind} of {town} opens at {hour}:30",
            "type": "fact" if kind == "ferry office" else "event",
            "entities": [town],
            "channel": f"#{town.lower()}",
            "created_at": f"2026-02-{hour:02}T10:00:00Z",
        }
        for kind in ("ferry office", "fish market")
        for hour, town in enumerate(TOWNS, 5)
    ]
    file = tmp_path / "memories.jsonl"
    file.write_text("".join(json.dumps(memory) + "\n" for memory in memories), encoding="utf-8")
    line.ok("import", str(file))
    return line


def test_a_store_is_measured_and_the_service_takes_what_was_written(commands: CommandLine, tmp_path: Path) -> None:
    dry = commands.json("calibrate", "--store")
    assert dry["tasks"] == 60
    assert dry["written"] is None
    assert 0.0 < dry["after"]["gate"] < 0.4
    assert dry["after"]["effect"]["stopped"] >= 0.9
    assert dry["after"]["confident"] >= dry["before"]["confident"]
    done = commands.json("calibrate", "--store", "--write")
    assert done["after"] == dry["after"]
    saved = json.loads((tmp_path / "data" / FILE).read_text(encoding="utf-8"))
    assert saved[PROFILE.fingerprint]["gate"] == done["after"]["gate"]
    assert commands.json("calibrate", "--store")["before"]["gate"] == done["after"]["gate"]
    assert "nothing written" in commands.ok("calibrate", "--store")
    question = "When does the ferry office of Corvale open?"
    assert next(hit["id"] for hit in commands.json("recall", question)["memories"]) == "ferry office-Corvale"
    write_calibration(tmp_path / "data", PROFILE, Thresholds(floor=0.99, gate=0.99, keyword=99.0, confident=0.99))
    assert commands.json("recall", question)["memories"] == []


def test_labelled_worlds_are_measured_without_touching_the_store(tmp_path: Path) -> None:
    line = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
    world = Path(__file__).parents[2] / "prompts" / "cases" / "backend-team"
    found = line.json("calibrate", "--worlds", str(world))
    assert found["after"]["effect"]["passing"] == 1.0
    assert found["after"]["effect"]["clean"] >= 0.85
    assert not (tmp_path / "data" / "memories").exists()


def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    line = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
    assert "--store or --worlds" in line.run("calibrate").output
    assert "too few" in line.run("calibrate", "--store").output
    assert "no labelled world" in line.run("calibrate", "--worlds", str(tmp_path)).output
    bare = command_line(tmp_path)
    assert "without an embedder" in bare.run("calibrate", "--store").output


def test_recall_by_hand_is_narrowed(commands: CommandLine) -> None:
    def found(*arguments: str) -> set[str]:
        return {
            hit["id"] for hit in commands.json("recall", "when does it open", "--limit", "50", *arguments)["memories"]
        }

    assert found("--channel", "#hestad") == {"ferry office-Hestad", "fish market-Hestad"}
    assert found("--type", "event", "--entity", "Farrow") == {"fish market-Farrow"}
    assert found("--since", "2026-02-14") == {"ferry office-Jorvane", "fish market-Jorvane"}
    assert found("--until", "2026-02-05T23:00:00Z") == {"ferry office-Aldersund", "fish market-Aldersund"}


def test_recall_by_hand_has_a_budget(commands: CommandLine) -> None:
    question = "the fish market of Ibsel"
    low = commands.json("recall", question, "--budget", "low")["memories"][0]
    high = commands.json("recall", question, "--budget", "high")["memories"][0]
    assert low["legs"] == ["message"]
    assert {"message", "named"} <= set(high["legs"])
    assert "named" in commands.ok("recall", question)
    assert commands.run("recall", question, "--budget", "boundless").exit_code != 0


def test_recall_by_hand_shows_history_when_asked(commands: CommandLine) -> None:
    commands.ok(
        "remember", "The ferry office of Corvale has closed", "--supersedes", "ferry office-Corvale", "--id", "now"
    )
    question = "ferry office of Corvale"
    now = [hit["id"] for hit in commands.json("recall", question)["memories"]]
    both = [hit["id"] for hit in commands.json("recall", question, "--history")["memories"]]
    assert "now" in now
    assert "ferry office-Corvale" not in now
    assert {"now", "ferry office-Corvale"} <= set(both)
