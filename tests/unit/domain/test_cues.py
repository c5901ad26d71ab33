"""Cues of a memory: what is accepted, what is dropped, and how vectors are packed."""

import json

import numpy as np
import pytest

from tests.support.store import direction
from worker.domain.cues import MAX_CUE_CHARS, MOST_CUES, MOST_LEARNED, Cue, CueOrigin, with_more
from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory
from worker.domain.vectors import cosine_similarity, packed, unpacked
from worker.transfer.entries import changed, memory_from
from worker.transfer.fields import to_line


def with_cues(*cues: object) -> Memory:
    return memory_from({"id": "m1", "content": "Dana likes Osteria Lume best", "cues": list(cues)}, None)


def texts(memory: Memory) -> list[str]:
    return [cue.text for cue in memory.cues]


def test_texts_and_objects_are_accepted() -> None:
    memory = with_cues("book for  Dana", {"text": "where to eat?", "origin": "model", "prompt": "cues-1"})
    assert memory.cues == (
        Cue(text="book for Dana"),
        Cue(text="where to eat?", origin=CueOrigin.MODEL, prompt="cues-1"),
    )
    assert memory_from(json.loads(to_line(memory)), None) == memory


def test_blank_and_repeated_cues_are_dropped() -> None:
    assert texts(with_cues({"text": "on\ntwo  lines"})) == ["on two lines"]
    assert texts(with_cues("Where to eat?", " ", "where  to eat", {"text": ""}, "book")) == ["Where to eat?", "book"]


@pytest.mark.parametrize(
    ("cues", "fault"),
    [
        ([f"cue {number}" for number in range(MOST_CUES + 1)], f"at most {MOST_CUES} cues"),
        (["x" * (MAX_CUE_CHARS + 1)], f"at most {MAX_CUE_CHARS} characters"),
        ([{"text": f"cue {number}", "origin": "learned"} for number in range(MOST_LEARNED + 1)], "learned cues"),
        ([7], "cues.0"),
        ("book a table", "cues: must be a list"),
    ],
)
def test_what_cannot_be_stored_says_why(cues: object, fault: str) -> None:
    with pytest.raises(MemoryRejected, match=fault):
        memory_from({"content": "x", "cues": cues}, None)


def test_a_new_text_drops_the_cues_that_are_not_given_with_it() -> None:
    memory = with_cues("book for Dana")
    assert changed(memory, {"content": "Dana likes Da Gino best"}).cues == ()
    assert texts(changed(memory, {"content": "Dana moved", "cues": ["where does Dana live?"]})) == [
        "where does Dana live?"
    ]
    assert texts(changed(memory, {"importance": 0.9})) == ["book for Dana"]
    assert texts(changed(memory, {"content": memory.content})) == ["book for Dana"]


def test_added_cues_make_room_among_the_models_first() -> None:
    cues = [Cue(text="by hand"), *(Cue(text=f"m{number}", origin=CueOrigin.MODEL) for number in range(11))]
    added = with_more(cues, [Cue(text="BY hand?"), Cue(text="new"), Cue(text="newer")])
    assert len(added) == MOST_CUES
    assert [cue.text for cue in added] == ["by hand", *(f"m{number}" for number in range(2, 11)), "new", "newer"]
    assert with_more(cues, [Cue(text="m3")]) == tuple(cues)


def test_learned_cues_make_room_for_each_other_only() -> None:
    written = [Cue(text=f"g{number}") for number in range(6)]
    learned = [Cue(text=f"l{number}", origin=CueOrigin.LEARNED) for number in range(9)]
    full = with_more(written, learned[:8])
    assert [cue.text for cue in full] == [*(f"g{number}" for number in range(6)), *(f"l{n}" for n in range(2, 8))]
    assert [cue.text for cue in with_more(full, learned[8:])][6:] == [f"l{number}" for number in range(3, 9)]
    assert [cue.text for cue in with_more(full, [Cue(text="new")])][6:] == [*(f"l{n}" for n in range(3, 8)), "new"]
    assert len(with_more((), learned)) == MOST_LEARNED
    crowded = with_more(written, [Cue(text=f"h{number}") for number in range(6)])
    assert with_more(crowded, learned) == crowded


def test_packed_vectors_keep_their_direction() -> None:
    vectors = [direction(f"v{number}", 384) for number in range(20)]
    query = direction("q", 384)
    rows = unpacked(packed(vectors), 384)
    assert rows.shape == (20, 384)
    exact = [cosine_similarity(np.array(query), vector) for vector in vectors]
    assert np.abs(rows @ np.array(query) - np.array(exact)).max() < 0.005
    assert packed([(0.0, 0.0)]) == bytes(2)
    assert unpacked(bytes(2), 2).tolist() == [[0.0, 0.0]]
