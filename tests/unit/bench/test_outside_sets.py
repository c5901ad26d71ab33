"""Data sets by other authors become labelled worlds, and choices for their tasks are scored."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.outside.locomo import read_locomo
from bench.outside.ours import BALANCED, SEARCH_ALONE, fallen_back
from bench.outside.precision_mem_bench import NAME, read_precision_mem_bench
from bench.outside.scoring import Ranked, best_threshold, cross_fitted, score_of, share_found
from bench.processes import BenchError
from hooks.contract import Engine, Outcome
from tests.support.paths import ROOT
from worker.domain.memory import MemoryScope, MemoryType
from worker.domain.visibility import visible_to
from worker.tuning.evals.results import TaskRun
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

DATA = ROOT / "tests" / "data" / "outside"
STATEMENTS, CONVERSATIONS = DATA / "precisionmembench", DATA / "locomo"


@pytest.fixture(scope="module")
def statements() -> LabelledWorld:
    return read_precision_mem_bench(STATEMENTS)


def task_of(world: LabelledWorld, key: str) -> LabelledTask:
    return next(task for task in world.tasks if task.key == key)


def seen_by(world: LabelledWorld, key: str) -> set[str]:
    """Return the owners' scopes that the product lets a task see."""
    request = task_of(world, key).request
    assert request.now is not None
    visible = visible_to(request.scope, request.agent_id, (), request.now, replay=True)
    return {
        memory.id
        for memory in world.memories
        if memory.scope.user in visible.users and memory.scope.agent in (None, *visible.agents)
    }


def test_beliefs_become_memories_of_their_user_and_domain(statements: LabelledWorld) -> None:
    memories = {memory.id: memory for memory in statements.memories}

    assert len(memories) == 7
    assert memories["b-queue"].scope == MemoryScope(user="test-user", agent="domain:code")
    assert memories["b-queue"].content == "Background jobs run on the queue Kestrel, two workers each."
    assert memories["b-tone"].scope == MemoryScope(user="test-user")
    assert memories["b-tone"].type is MemoryType.PREFERENCE
    assert memories["b-editor-old"].superseded_by == "b-editor"
    assert memories["b-deploy-q"].valid_until == datetime(2026, 3, 20, tzinfo=UTC)


def test_a_case_sees_its_own_domains_and_user(statements: LabelledWorld) -> None:
    code = {"b-editor", "b-editor-old", "b-queue", "b-deploy-q", "b-tone"}

    assert seen_by(statements, "editor") == code
    assert seen_by(statements, "kestrel-both") == {*code, "b-kestrel-novel"}
    assert seen_by(statements, "new-user") == set()


def test_pinned_beliefs_are_neutral_and_outdated_foreign_and_other_ones_forbidden(statements: LabelledWorld) -> None:
    editor = task_of(statements, "editor")

    assert editor.essential == {"b-editor"}
    assert editor.useful == {"b-tone"}
    assert editor.forbidden == {"b-editor-old", "b-deploy-q", "b-kestrel-novel", "b-other"}
    assert "b-kestrel-novel" not in task_of(statements, "kestrel-both").forbidden
    assert task_of(statements, "new-user").useful == frozenset()


def test_only_labelled_cases_count_and_turns_of_a_session_know_the_earlier_ones(statements: LabelledWorld) -> None:
    keys = [task.key for task in statements.tasks]

    assert "unlabelled" not in keys
    assert keys[-2:] == ["drift/0", "drift/1"]
    second = task_of(statements, "drift/1").request
    assert [turn.role for turn in second.recent_messages] == ["user", "assistant"]
    assert second.recent_messages[0].content == "our background jobs pile up in Kestrel"
    assert task_of(statements, "drift/0").request.recent_messages == ()


def test_sessions_are_optional(tmp_path: Path) -> None:
    for name in ("beliefs.seed.json", "retrieval.cases.json"):
        shutil.copy(STATEMENTS / name, tmp_path)

    world = read_precision_mem_bench(tmp_path)

    assert world.name == NAME
    assert len(world.tasks) == 6


def test_a_damaged_file_is_named_with_its_fault(tmp_path: Path) -> None:
    shutil.copytree(STATEMENTS, tmp_path, dirs_exist_ok=True)
    beliefs = json.loads((tmp_path / "beliefs.seed.json").read_text())
    del beliefs[2]["content"]
    (tmp_path / "beliefs.seed.json").write_text(json.dumps(beliefs))

    with pytest.raises(BenchError, match=r"beliefs\.seed\.json: .*content") as raised:
        read_precision_mem_bench(tmp_path)
    assert "pydantic" not in str(raised.value)

    (tmp_path / "beliefs.seed.json").unlink()
    with pytest.raises(BenchError, match=r"beliefs\.seed\.json: No such file"):
        read_precision_mem_bench(tmp_path)


def test_a_case_with_three_scopes_is_rejected(tmp_path: Path) -> None:
    shutil.copytree(STATEMENTS, tmp_path, dirs_exist_ok=True)
    cases = json.loads((tmp_path / "retrieval.cases.json").read_text())
    cases[0]["scope"] = ["domain:code", "domain:writing", "domain:hobby"]
    (tmp_path / "retrieval.cases.json").write_text(json.dumps(cases))

    with pytest.raises(BenchError, match="editor: 3 scopes"):
        read_precision_mem_bench(tmp_path)


def test_turns_become_memories_and_answerable_questions_tasks() -> None:
    first, second = read_locomo(CONVERSATIONS, None)

    assert [memory.id for memory in first.memories] == ["D1:1", "D1:2", "D1:3", "D2:1", "D2:2"]
    assert first.memories[2].content == "Ines: Look at this! [shares a photo of a dog on a red sofa]"
    assert first.memories[3].created_at == datetime(2023, 6, 2, 9, 5, tzinfo=UTC)
    assert [task.essential for task in first.tasks] == [{"D1:1"}, {"D2:1", "D1:2"}, {"D1:3"}]
    assert all(task.request.now == datetime(2023, 6, 3, 9, 5, tzinfo=UTC) for task in first.tasks)
    assert second.name == "made-up-2"
    assert len(read_locomo(CONVERSATIONS, 1)) == 1


def test_a_session_without_a_date_is_reported(tmp_path: Path) -> None:
    conversations = json.loads((CONVERSATIONS / "locomo10.json").read_text())
    conversations[0]["conversation"]["session_2_date_time"] = "June"
    (tmp_path / "locomo10.json").write_text(json.dumps(conversations))

    with pytest.raises(BenchError, match="no date like"):
        read_locomo(tmp_path, None)


def test_scores_leave_out_pinned_beliefs(statements: LabelledWorld) -> None:
    chosen = {
        "editor": ["b-editor", "b-tone"],
        "queue": ["b-editor-old", "b-editor"],
        "kestrel-both": ["b-queue"],
        "tides": ["b-tone"],
        "new-user": ["b-other"],
    }
    score = score_of((task, chosen.get(task.key, [])) for task in statements.tasks)

    assert (score.tasks, score.expected, score.empty) == (8, 5, 4)
    assert (score.chosen, score.right, score.forbidden) == (5, 2, 2)
    assert score.precision == 2 / 5
    assert score.recall == 2 / 5
    assert score.f1 == 4 / 10
    assert score.clean_turns == 3 / 4


def test_nothing_chosen_has_no_precision(statements: LabelledWorld) -> None:
    score = score_of((task, ()) for task in statements.tasks)

    assert score.precision is None
    assert score.recall == 0.0
    assert score.clean_turns == 1.0


def test_a_threshold_is_fitted_for_f1_and_ignores_pinned_beliefs(statements: LabelledWorld) -> None:
    editor, tides = task_of(statements, "editor"), task_of(statements, "tides")
    ranked = [
        Ranked(editor, (("b-tone", 0.9), ("b-editor", 0.7), ("b-queue", 0.2))),
        Ranked(tides, (("b-queue", 0.5),)),
    ]

    assert best_threshold(ranked) == 0.7
    assert best_threshold([]) == float("inf")


def test_a_fitted_threshold_is_scored_on_tasks_that_it_has_not_seen(statements: LabelledWorld) -> None:
    editor, tides = task_of(statements, "editor"), task_of(statements, "tides")
    ranked = [Ranked(editor, (("b-editor", 0.7),)), Ranked(tides, (("b-queue", 0.8),))] * 4

    total = cross_fitted(ranked)

    assert total == cross_fitted(ranked)
    assert total.tasks == 20 * 4
    assert total.recall == 1.0
    assert total.clean_turns == 0.0


def test_the_share_of_evidence_counts_every_turn() -> None:
    (world,) = read_locomo(CONVERSATIONS, 1)
    found = (("D1:1", 0.9), ("D2:1", 0.8), ("D1:2", 0.7))
    ranked = [Ranked(task, found) for task in world.tasks]

    assert share_found(ranked, 1) == 1 / 4
    assert share_found(ranked, 2) == 2 / 4
    assert share_found(ranked, 30) == 3 / 4


@pytest.mark.parametrize(
    ("name", "engine", "injected", "degraded", "expected"),
    [
        (BALANCED, Engine.RELEVANCE_MODEL, ("b-queue",), False, False),
        (BALANCED, Engine.DETERMINISTIC, ("b-queue",), False, True),
        (BALANCED, Engine.DETERMINISTIC, (), False, False),
        (SEARCH_ALONE, Engine.DETERMINISTIC, ("b-queue",), False, False),
        (SEARCH_ALONE, Engine.DETERMINISTIC, (), True, True),
    ],
)
def test_an_answer_of_search_scores_is_not_one_of_the_relevance_model(
    name: str, engine: Engine, injected: tuple[str, ...], degraded: bool, expected: bool
) -> None:
    outcome = Outcome.INJECTED if injected else Outcome.NONE_RELEVANT
    run = TaskRun(
        world=NAME, task="queue", category="", injected=injected, outcome=outcome, engine=engine, degraded=degraded
    )

    assert fallen_back(name, run) is expected
