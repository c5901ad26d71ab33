"""What pages give to type works for a reader whose store is empty, line by line and in their order."""

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.docs_commands import lines_of
from tests.support.paths import ROOT
from tests.support.stack import background_service
from tests.support.worlds import copy_part

DEPLOYMENTS = {
    "m1": "Deployments to production happen on Tuesdays after the stand-up",
    "m2": "Deployments to production need the approval of Dana",
    "m7": "Deployments to the staging environment happen at every commit",
    "m9": "The phone of whoever is on call lies below the printer",
}
QUESTION = "On which day do deployments to production happen, and who approves them?"
FAMILY = ROOT / "prompts/cases/family-assistant"
FEW = "label more receipts"
"""What commands that fit something say of a single label."""
ASKING = ["eval", "label", "ID"]
"""Asks in a terminal, which another test has."""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")


def typed(page: str) -> list[list[str]]:
    """The commands of a page that need no chat model."""
    found = [words for words in lines_of(ROOT / page) if "enrich" not in words and words[:2] != ["eval", "cues"]]
    return [words for words in found if not any(word.startswith("ollama") for word in words)]


def test_the_example_of_a_cue_is_found_by_it(shell: CommandLine) -> None:
    remember, inject = typed("docs/cues.md")
    shell.ok(*remember)
    result = shell.json(*inject)
    assert [item["text"] for item in result["items"]] == [remember[1]]


@pytest.mark.slow
def test_receipts_are_looked_at_replayed_and_labelled(shell: CommandLine) -> None:
    for key, text in DEPLOYMENTS.items():
        shell.ok("remember", text, "--id", key)
    receipt = shell.json("inject", QUESTION)["receipt_id"]
    lines = typed("docs/receipts.md")
    assert len(lines) > 12
    for words in lines:
        ran = shell.run(*(receipt[:8] if word == "ID" else word for word in words))
        refused = ("calibrate" in words and FEW in ran.output) or (words == ASKING and "use --essential" in ran.output)
        assert ran.exit_code == (1 if refused else 0), f"{words}: {ran.output}"
    assert receipt[:8] in shell.ok("admin", "receipts")


def test_why_is_asked_of_the_latest_request_and_of_words(shell: CommandLine) -> None:
    shell.ok("remember", DEPLOYMENTS["m1"])
    receipt = shell.json("inject", QUESTION)["receipt_id"]
    for asked in ([], [receipt[:8]], ["deployments to production"]):
        assert QUESTION in shell.ok("why", *asked)


def test_usage_of_a_memory_is_listed(shell: CommandLine) -> None:
    shell.ok("remember", DEPLOYMENTS["m1"], "--id", "deploy")
    least, _, deploy = [shell.ok(*words) for words in typed("docs/feedback.md")]
    assert "no answers reported yet" in least
    assert DEPLOYMENTS["m1"] in deploy


def test_the_skill_is_put_where_the_page_says(shell: CommandLine, tmp_path: Path) -> None:
    (words,) = typed("docs/skill.md")
    shell.ok(*words)
    assert (tmp_path / words[-1] / "memory-search/SKILL.md").is_file()


@pytest.mark.slow
def test_evaluations_without_a_model_are_made_and_compared(shell: CommandLine, tmp_path: Path) -> None:
    """On a part of one of the worlds, and those with a model in the tutorial."""
    *evals, compare, lint = typed("docs/evaluation.md")
    part = copy_part(FAMILY, tmp_path / "part", every=3, memories=30)
    made = [shell.json(*words, "--worlds", str(part))["id"] for words in evals]
    assert compare[:2] == ["eval", "compare"]
    assert "items per turn" in shell.ok("eval", "compare", *made)
    shell.ok(*lint)


@pytest.mark.slow
def test_the_readme_works_with_the_service_that_it_starts(shell: CommandLine, tmp_path: Path) -> None:
    lines = [words for words in typed("README.md") if words[0] in ("remember", "inject", "why", "doctor", "settings")]
    assert [words[0] for words in lines][:4] == ["remember", "inject", "why", "doctor"]
    with background_service(tmp_path):
        for words in lines:
            if words != ["doctor", "claude-code"]:
                shell.ok(*words)
        assert "max_items = " in shell.ok("settings", "get", "max_items")


@pytest.mark.slow
def test_settings_are_changed_as_the_page_says(shell: CommandLine, tmp_path: Path) -> None:
    with background_service(tmp_path):
        for words in typed("docs/settings.md"):
            shell.ok(*words)
        assert shell.ok("settings", "get", "max_items").startswith("max_items = 3 ")
        assert shell.ok("settings", "get", "max_items", "--agent", "researcher").startswith("max_items = 3 ")
        assert "max_items: 3 (not saved) → 8; undone by 3" in shell.ok("settings", "history")


@pytest.mark.slow
def test_thresholds_and_the_relevance_model_are_measured_and_fitted(shell: CommandLine, tmp_path: Path) -> None:
    lines = typed("docs/relevance-model.md") + typed("docs/choosing.md")
    assert len(lines) > 8
    labels = {"cases.jsonl": str(copy_part(FAMILY, tmp_path / "part", every=1, memories=0))}
    with background_service(tmp_path):
        shell.ok("remember", DEPLOYMENTS["m1"])
        for words in map(list, dict.fromkeys(map(tuple, lines))):  # one line is on both pages
            ran = shell.run(*(labels.get(word, word) for word in words))
            few = words == ASKING or "--store" in words  # they need a terminal, and twenty memories
            assert ran.exit_code == (1 if few else 0), f"{words}: {ran.output}"
