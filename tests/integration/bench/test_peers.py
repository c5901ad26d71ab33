"""Other memory systems, and ours beside them, are measured in processes of their own."""

from pathlib import Path

import pytest

from bench.peers import measuring
from bench.peers.exchange import Found
from bench.processes import BenchError
from tests.support.peer_texts import texts


def test_our_store_is_measured_in_its_own_process_without_peers(tmp_path: Path) -> None:
    measuring.write(tmp_path, texts("ferry", "harbour"), texts("ferry"), keywords=False)

    assert measuring.fill("meeseeks", tmp_path, 60.0).stored == 2
    searched = measuring.search("meeseeks", tmp_path, 1)
    assert [one.hits[0][0] for one in searched.found] == ["ferry"]
    assert searched.first_s > 0
    assert isinstance(searched.found[0], Found)


def test_a_process_that_fails_is_reported_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"(?s)failed with exit code 1:.*memories\.json"):
        measuring.fill("meeseeks", tmp_path, 1.0)
