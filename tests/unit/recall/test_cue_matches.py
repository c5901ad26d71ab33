"""A query compared with the texts and cues of what was found."""

import time

import pytest

from tests.support.store import direction, memory, near
from worker.domain.vectors import packed
from worker.recall.cue_matches import match_cues
from worker.recall.ranking import Entry

QUERY = direction("question", 384)


def entry(key: str, own: float, *cues: float) -> Entry:
    """An entry whose text and cues have these cosines to the query."""
    texts = [f"cue {number} of {key}" for number in range(len(cues))]
    vectors = [near(QUERY, cosine, f"{key} {place}") for place, cosine in enumerate((own, *cues))]
    return Entry(memory(key, cues=texts), vectors[0], cosine=0.5, cue_rows=packed(vectors) if cues else b"")


def test_the_nearest_cue_and_the_number_of_near_ones_are_found() -> None:
    first, second, bare = entry("a", 0.2, 0.4, 0.8, 0.6), entry("b", 0.7, 0.3), entry("c", 0.9)
    match_cues([first, bare, second], [QUERY])
    assert first.cues is not None
    assert second.cues is not None
    assert first.cues.own_cosine == pytest.approx(0.2, abs=0.01)
    assert first.cues.cosine == pytest.approx(0.8, abs=0.01)
    assert (first.cues.text, first.cues.near, first.cues.leading) == ("cue 1 of a", 2, "cue 1 of a")
    assert (second.cues.near, second.cues.leading) == (0, None)
    assert bare.cues is None


def test_the_nearest_wording_counts() -> None:
    one = entry("a", 0.2, 0.4)
    other = near(QUERY, 0.4, "a 1")
    match_cues([one], [QUERY, tuple(2.0 * value for value in other)])
    assert one.cues is not None
    assert one.cues.cosine == pytest.approx(1.0, abs=0.01)


def test_vectors_that_do_not_fit_the_cues_are_ignored() -> None:
    one = entry("a", 0.2, 0.4)
    one.cue_rows = one.cue_rows[:-384]
    match_cues([one], [QUERY])
    match_cues([entry("b", 0.2, 0.4)], [])
    assert one.cues is None


def test_fifty_memories_with_eight_cues_take_little_time() -> None:
    entries = [entry(f"m{number}", 0.2, *(0.1 * place for place in range(8))) for number in range(50)]

    def seconds() -> float:
        start = time.thread_time()
        match_cues(entries, [QUERY])
        return time.thread_time() - start

    assert min(seconds() for _ in range(20)) < 0.01
