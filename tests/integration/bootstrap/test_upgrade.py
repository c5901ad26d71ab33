"""A data folder and a settings file of version 0.1.0 keep working.

The archive holds what that version wrote: a store with three memories, one superseded, a receipt, measured thresholds,
an adjustment of the relevance model, and a settings file with keys and values that have other names now.
"""

import tarfile
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.paths import ROOT
from worker.settings.injection import Settings

ARCHIVE = ROOT / "tests/data/upgrade/data-folder-0.1.tar.xz"


@pytest.fixture
def upgraded(tmp_path: Path) -> CommandLine:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    config = str(tmp_path / "data" / "meeseeks.toml")
    return command_line(tmp_path, MEESEEKS_EMBEDDER="minilm", MEESEEKS_CONFIG=config)


def test_the_store_opens_with_every_memory_and_its_history(upgraded: CommandLine) -> None:
    memories = {one["content"]: one for one in upgraded.json("list")["memories"]}
    assert set(memories) == {
        "Staging listens on port 9443",
        "Staging moved to port 9500",
        "The reed organ is tuned by Pavel",
    }
    assert memories["Staging listens on port 9443"]["superseded_by"]
    found = upgraded.json("recall", "Which port does staging listen on?")["memories"]
    assert found[0]["text"] == "Staging moved to port 9500"


def test_receipts_are_read_and_run_again(upgraded: CommandLine) -> None:
    (receipt,) = upgraded.json("receipt")["receipts"]
    assert receipt["outcome"] == "injected"
    assert upgraded.json("replay", receipt["id"])["before"]["outcome"] == "injected"


def test_measured_thresholds_are_kept(upgraded: CommandLine) -> None:
    before = upgraded.json("calibrate", "--cases", str(ROOT / "prompts/cases/backend-team"))["search"]["before"]
    assert before["candidate_threshold"] == pytest.approx(0.1)
    assert before["query_threshold"] == pytest.approx(0.3)


def test_former_settings_keep_their_meaning_and_removed_ones_warn(upgraded: CommandLine) -> None:
    settings = Settings.load({}, upgraded.folder / "data" / "meeseeks.toml")
    assert settings.memory_injection.relevance_profile == "generous"
    assert settings.memory_injection.strategy == "relevance"
    assert settings.memory_injection.max_items == 4
    assert len(settings.warnings) == 3
    assert "meeseeks.toml:2: memory_injection.judge_point has been renamed to relevance_profile" in settings.warnings[0]
    assert all("no longer exists and is ignored" in warning for warning in settings.warnings[1:])
