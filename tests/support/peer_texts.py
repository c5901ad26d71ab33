"""Texts as a benchmark gives them to other memory systems."""

import numpy as np

from bench.peers.exchange import Texts


def texts(*words: str) -> Texts:
    """Return a text about each word, with vectors that are all different."""
    return Texts(words, tuple(f"about {word}" for word in words), np.eye(len(words), 384, dtype=np.float32))
