"""Vectors of memories: of the text alone, and where there are any, of its cues and of the pieces of a long text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.domain.cues import CueVectors
from worker.domain.memory import Memory, Vector
from worker.domain.vectors import mean, packed
from worker.ports.models import Embedder
from worker.text.excerpts import pieces
from worker.text.names import passage_text

JOINT_CHARS = 600
"""Characters of the text beside its cues, so that the cues of a long text are within what an embedder reads."""


@dataclass(frozen=True, slots=True)
class MemoryVectors:
    """The vectors of one memory; `own` is `None` if it could not be embedded."""

    own: Vector | None = None
    cues: CueVectors | None = None


async def vectors_of(embedder: Embedder, memories: Sequence[Memory]) -> list[MemoryVectors]:
    """Embed the memories and their cues. Raise `EmbedderError`."""
    texts = list(dict.fromkeys(text for memory in memories for text in texts_of(memory)))
    vectors = dict(zip(texts, await embedder.embed_passages(texts), strict=True))
    return [assembled(memory, vectors) for memory in memories]


def texts_of(memory: Memory) -> list[str]:
    """Return the texts to embed: the content after its context, it and the cues together, each cue, and each piece."""
    text, cues = passage_text(memory), [cue.text for cue in memory.cues]
    joint = ["\n".join([text[:JOINT_CHARS], *cues])] if cues else []
    return [text, *joint, *cues, *pieces(text)]


def assembled(memory: Memory, vectors: Mapping[str, Vector | None]) -> MemoryVectors:
    """Return the vectors of a memory, given those of its texts."""
    own, *others = (vectors[text] for text in texts_of(memory))
    found = [vector for vector in others if vector is not None]
    if own is None or not others or len(found) < len(others):
        return MemoryVectors(own)
    joint, rows = (found[0], found[1:]) if memory.cues else (mean(found), found)
    return MemoryVectors(own, CueVectors(joint, packed([own, *rows])))


def is_whole(vectors: MemoryVectors, memory: Memory) -> bool:
    """Return whether no vector of the memory is missing."""
    if vectors.own is None:
        return False
    rows = len(memory.cues) + len(pieces(passage_text(memory)))
    return rows == 0 or (vectors.cues is not None and len(vectors.cues.rows) == (1 + rows) * len(vectors.own))
