"""What `setup` offers to import, and what it removes again."""

from pathlib import Path

import pytest

from worker.cli.hosts.host_setup import HostEnvironment
from worker.cli.hosts.notes import find_notes
from worker.cli.hosts.traces import missing_folders, remember_folders, remove_traces
from worker.settings.injection import load_settings


def written(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_notes_are_found_in_both_folders_and_shown(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    memory = written(home / ".claude/projects/-work-api/memory/MEMORY.md", "- Deploys happen on Tuesdays\n")
    rules = written(
        project / "CLAUDE.md", "".join(f"- Rule {number} holds for the billing job\n" for number in range(7))
    )
    written(project / "README.md", "- Not a note for agents\n")
    written(project / "AGENTS.md", "\n")
    found = find_notes(HostEnvironment(home, project), load_settings(data_dir=tmp_path / "data"))
    assert {str(memory), str(rules)} <= set(found.paths)
    assert found.count == 8
    text = "\n".join(found.lines())
    assert "could become 8 memories" in text
    assert "Deploys happen on Tuesdays" in text
    assert "and 3 more" in text
    assert "Not a note" not in text


def test_the_same_note_in_two_files_is_offered_once(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    for folder in (home / ".claude", project):
        written(folder / "CLAUDE.md", "- Answer briefly\n")
    found = find_notes(HostEnvironment(home, project), load_settings(data_dir=tmp_path / "data"))
    assert (len(found.paths), found.count) == (2, 1)


def test_folders_are_removed_that_were_made_and_are_empty(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    home, unit, used = tmp_path / "data/meeseeks", tmp_path / "theirs/made/unit", tmp_path / "used/deep/file"
    folders = missing_folders([home / "any", unit, used])
    remember_folders(home, folders)
    remember_folders(home, [tmp_path / "later"])
    for path in (unit, used, home / "service.log", home / "memories/points/1", home / "projects.toml"):
        written(path)
    unit.unlink()
    remove_traces(home, data=True, everything=False)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"used/deep/file", "data/meeseeks/projects.toml"}
    assert list((tmp_path / "theirs").iterdir()) == []


@pytest.mark.parametrize("everything", [False, True])
def test_what_the_user_has_made_stays_unless_it_is_meant(tmp_path: Path, everything: bool) -> None:
    for name in ("evals/1.json", "calibration.json", "memories/x", ".calibration.json.lock"):
        written(tmp_path / "data" / name)
    outside = written(tmp_path / "outside/kept")
    (tmp_path / "data/valkey").symlink_to(outside.parent)
    remove_traces(tmp_path / "data", data=True, everything=everything)
    assert (tmp_path / "data").exists() != everything
    assert (tmp_path / "data/evals/1.json").exists() != everything
    assert not (tmp_path / "data/memories").exists()
    assert outside.exists()
    remove_traces(tmp_path / "nowhere", data=True, everything=everything)
