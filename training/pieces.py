"""Make the table of word pieces: MiniLM's output for each piece alone, reduced in dimension, and its rarity."""

import math
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from worker.adapters.models.minilm import hidden_states, make_session, make_tokenizer
from worker.adapters.models.relevance_file import PieceTable
from worker.relevance.columns import Column
from worker.relevance.features import Matrix

DIMENSIONS = 64
BATCH = 512
BEGIN, END = 101, 102
"""Ids of the start and end tokens."""

COMMON, RARE = 1.5, 7.0
"""Inverse document frequencies of rarity 0 and 1."""

UNSEEN = 0.2
"""Number added to each piece's count, so that unseen pieces have a weight."""


def make_table(texts: Iterable[str], step: Callable[[], None] = lambda: None) -> PieceTable:
    """Return the vectors of all pieces, and their rarity in `texts`."""
    tokenizer = make_tokenizer()
    held: Counter[int] = Counter()
    number = 0
    for text in texts:
        held.update(set(tokenizer.encode(text, add_special_tokens=False).ids))
        number += 1
    seen = np.array([held[piece] for piece in range(tokenizer.get_vocab_size())], dtype=np.float64)
    vectors = _reduced(_alone(tokenizer.get_vocab_size(), step), np.sqrt(seen + UNSEEN))
    return PieceTable(np.rint(vectors * 127.0).astype(np.int8), _rarity(tokenizer, seen, number))


def _alone(number: int, step: Callable[[], None]) -> Matrix:
    """Return the embedder's output for each piece between start and end tokens."""
    session = make_session()
    rows = []
    for start in range(0, number, BATCH):
        pieces = np.arange(start, min(number, start + BATCH))
        ids = np.stack([np.full_like(pieces, BEGIN), pieces, np.full_like(pieces, END)], axis=1).astype(np.int64)
        rows.append(hidden_states(session, ids, np.ones_like(ids))[:, 1])
        step()
    table: Matrix = np.concatenate(rows).astype(np.float32)
    return table


def _reduced(vectors: Matrix, weights: Column) -> Matrix:
    """Project onto the weighted principal components, and scale to unit length."""
    centred = (vectors - vectors.mean(axis=0)).astype(np.float64)
    weighed = centred * weights[:, None]
    values, directions = np.linalg.eigh(weighed.T @ weighed)
    chosen = directions[:, np.argsort(-values)[:DIMENSIONS]]
    signs = np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    reduced = centred @ (chosen * signs)
    unit: Matrix = (reduced / (np.linalg.norm(reduced, axis=1, keepdims=True) + 1e-6)).astype(np.float32)
    return unit


def _rarity(tokenizer: Tokenizer, seen: npt.NDArray[np.float64], number: int) -> Column:
    """Return 0 for punctuation and common pieces, up to 1 for rare ones."""
    rarity = np.array([math.log((number + 1.0) / (count + 1.0)) for count in seen])
    scaled = np.clip((rarity - COMMON) / (RARE - COMMON), 0.0, 1.0)
    names = (tokenizer.id_to_token(piece) or "" for piece in range(len(seen)))
    worded = np.array([any(map(str.isalnum, name)) and not name.startswith("[") for name in names])
    rare: Column = (scaled * worded).astype(np.float32)
    return rare
