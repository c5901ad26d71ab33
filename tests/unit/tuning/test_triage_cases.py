"""The shipped tasks of the kinds that models of triage get wrong: there, and labelled without contradiction."""

import pytest

from tests.support.paths import ROOT
from worker.domain.memory import is_superseded
from worker.tuning.labelled_worlds import LabelledTask, read_world

WORLD = read_world(ROOT / "prompts/cases/translation-desk")


def tasks(category: str) -> list[LabelledTask]:
    return [task for task in WORLD.tasks if task.category == category]


@pytest.mark.parametrize("category", ["unanswered", "name_match", "two_part", "followup", "planted", "complements"])
def test_every_kind_has_tasks(category: str) -> None:
    assert len(tasks(category)) >= 2


def test_labels_name_memories_that_exist_and_hold() -> None:
    known = {memory.id: memory for memory in WORLD.memories}
    replaced = {relation.target for memory in WORLD.memories for relation in memory.relations}
    for task in WORLD.tasks:
        labelled = task.essential | task.useful | task.forbidden
        assert labelled <= set(known), task.key
        assert not task.forbidden & task.relevant, task.key
        assert not task.relevant & replaced, task.key
        assert task.request.now is not None
        assert not any(is_superseded(known[key], task.request.now) for key in task.relevant)


def test_the_labels_are_those_of_their_kind() -> None:
    assert not any(task.essential for task in (*tasks("unanswered"), *tasks("name_match")))
    assert all(len(task.essential) == 2 for task in tasks("two_part"))
    assert all(task.request.recent_messages for task in tasks("followup"))
    assert all(task.forbidden for task in tasks("planted"))
    assert any(len(task.essential) == 2 for task in tasks("complements"))


def test_no_shipped_world_has_the_name_of_one_that_the_relevance_model_is_fitted_to() -> None:
    shipped, fitted = (
        {path.name for folder in folders for path in (ROOT / folder).iterdir() if path.is_dir()}
        for folders in (["prompts/cases", "training/held-out"], ["training/worlds", "training/stores"])
    )
    assert "translation-desk" in shipped
    assert not shipped & fitted
