"""The small labelled stores and the cues that ship as training data are sound."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from worker.tuning.labelled_worlds import read_worlds

STORES, HELD_OUT, WORLDS = (ROOT / "training" / name for name in ("stores", "held-out", "worlds"))
CUED = sorted(path.parent for folder in (STORES, HELD_OUT, WORLDS) for path in folder.glob("*/cues.jsonl"))


@pytest.mark.parametrize("folder", [STORES, HELD_OUT], ids=lambda folder: folder.name)
def test_labels_name_notes_of_their_store_and_negatives_have_none(folder: Path) -> None:
    stores = read_worlds(folder)
    assert len(stores) >= 40
    for store in stores:
        ids = {memory.id for memory in store.memories}
        for task in store.tasks:
            assert task.essential | task.useful | task.forbidden <= ids, (store.name, task.key)
            assert bool(task.relevant) != (task.category == "negative"), (store.name, task.key)
            assert not task.essential & task.forbidden, (store.name, task.key)


def test_every_kind_of_question_is_asked_often() -> None:
    asked = Counter(task.category for store in read_worlds(STORES) for task in store.tasks)
    assert sum(asked.values()) > 1_600
    assert min(asked.values()) >= 50


@pytest.mark.parametrize("folder", CUED, ids=lambda folder: folder.name)
def test_cues_belong_to_memories(folder: Path) -> None:
    ids = {json.loads(line)["id"] for line in (folder / "memories.jsonl").read_text("utf-8").splitlines()}
    for line in (folder / "cues.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        assert entry["id"] in ids
        assert 1 <= len(set(entry["cues"])) == len(entry["cues"]) <= 8
        assert all(0 < len(cue) <= 160 for cue in entry["cues"])
