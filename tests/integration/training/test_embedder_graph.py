"""The graph of the embedder that ships is the one that its module writes."""

import hashlib

from training.embedder_graph import OUT, embedder_graph
from worker.adapters.models.minilm import GRAPH_SHA256


def test_the_graph_that_ships_can_be_written_again() -> None:
    assert hashlib.sha256(embedder_graph()).hexdigest() == GRAPH_SHA256
    assert hashlib.sha256(OUT.read_bytes()).hexdigest() == GRAPH_SHA256
