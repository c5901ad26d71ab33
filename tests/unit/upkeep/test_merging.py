"""A merge keeps what its memories have, and is taken back without losing what others wrote since."""

from typing import Any

import numpy as np
import pytest

from worker.domain.memory import Memory, Relation
from worker.domain.vectors import packed
from worker.upkeep.merging import before_of, digest_of, merged, merges_of, unmerged
from worker.upkeep.near_pairs import TILE, groups_of, near_pairs

KEPT = {"id": "k", "content": "Mia lives in Bern", "created_at": "2025-06-01T00:00:00Z", "entities": ["Mia"]}
OTHER = {
    "id": "o",
    "content": "Mia lives in Bern.",
    "created_at": "2025-01-01T00:00:00Z",
    "importance": 0.9,
    "entities": ["Mia", "Bern"],
    "cues": ["where is Mia?"],
    "relations": [{"kind": "about", "target": "city"}, {"kind": "about", "target": "k"}],
    "source": "notes.md",
}


def memory(fields: dict[str, Any], **more: Any) -> Memory:
    return Memory.model_validate(fields | more)


def test_a_merge_and_its_end() -> None:
    kept, other = memory(KEPT), memory(OTHER)
    both = merged(kept, [other])
    assert (both.created_at, both.importance, both.entities) == (other.created_at, 0.9, ("Mia", "Bern"))
    assert both.relations == (Relation(kind="about", target="city"), Relation(kind="supersedes", target="o"))
    assert (both.source, both.content, len(both.cues)) == ("notes.md", kept.content, 1)
    assert unmerged(both, [other], before_of(kept, [other])) == kept


def test_a_merged_memory_is_pinned_if_one_was() -> None:
    kept, other = memory(KEPT), memory(OTHER, pinned=True)
    both = merged(kept, [other])
    assert both.pinned
    assert unmerged(both, [other], before_of(kept, [other])) == kept
    mine = memory(KEPT, pinned=True)
    assert unmerged(merged(mine, [other]), [other], before_of(mine, [other])) == mine
    assert digest_of(kept) != digest_of(mine)


def test_what_others_wrote_since_stays() -> None:
    kept, other = memory(KEPT), memory(OTHER)
    since = merged(kept, [other]).model_copy(update={"importance": 0.1, "source": "mine", "entities": ("Mia", "Tom")})
    back = unmerged(since, [other], before_of(kept, [other]))
    assert (back.importance, back.source, back.entities) == (0.1, "mine", ("Mia", "Tom"))
    assert (back.created_at, back.relations, back.cues) == (kept.created_at, (), ())


def test_the_reference_to_a_duplicate_that_was_deleted_goes_too() -> None:
    kept, other = memory(KEPT), memory(OTHER)
    back = unmerged(merged(kept, [other]), [], before_of(kept, [other]), gone=["o"])
    assert Relation(kind="supersedes", target="o") not in back.relations


def test_the_newest_of_near_texts_stays_and_other_facts_are_apart() -> None:
    texts = {"old": "Mia lives in Bern", "new": "Mia lives in Bern!", "tom": "Tom lives in Bern"}
    found = [
        Memory.model_validate({"id": key, "content": text, "created_at": f"2025-01-0{day}T00:00:00Z"})
        for day, (key, text) in enumerate(texts.items(), 1)
    ]
    rows = np.frombuffer(packed([(1.0, 0.0)]) * 3, dtype=np.int8).reshape(3, 2)
    ((kept, others),) = merges_of(found, rows, 0.9)
    assert (kept.id, [one.id for one in others]) == ("new", ["old"])
    assert merges_of(found, np.zeros_like(rows), None) == []


@pytest.mark.parametrize("count", [50, TILE + 300])
def test_near_pairs_are_those_of_a_full_comparison(count: int) -> None:
    random = np.random.default_rng(7)
    rows = random.standard_normal((count, 96)) + 0.5
    rows[count // 2 : count // 2 + 20] = rows[:20] + 0.3 * random.standard_normal((20, 96))
    whole = np.rint(rows * 127 / np.abs(rows).max(axis=1, keepdims=True)).astype(np.int8)
    unit = whole / np.linalg.norm(whole.astype(float), axis=1, keepdims=True)
    expected = {(one, other) for one, other in zip(*np.nonzero(unit @ unit.T >= 0.9), strict=True) if one < other}
    assert len(expected) >= 15
    assert {pair for tile in near_pairs(whole, 0.9) for pair in tile} == expected


def test_groups_are_what_is_connected() -> None:
    assert groups_of([(5, 3), (1, 2), (3, 1), (8, 9)]) == [[1, 2, 3, 5], [8, 9]]
