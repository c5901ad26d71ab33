"""A start does not collect garbage, whatever comes of it."""

import gc

import pytest

from worker.bootstrap.process_memory import no_collections


def test_a_start_collects_no_garbage_and_what_it_leaves_is_not_walked_again() -> None:
    frozen = gc.get_freeze_count()
    with no_collections():
        assert not gc.isenabled()
        kept = [[] for _ in range(100)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= frozen + len(kept)


def test_a_start_that_fails_turns_collections_on_again() -> None:
    with pytest.raises(OSError, match="no room"), no_collections():
        raise OSError("no room")
    assert gc.isenabled()


def test_where_collections_are_off_they_stay_off() -> None:
    gc.disable()
    try:
        with no_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
