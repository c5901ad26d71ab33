"""Vectors of memories: of the text alone, and for a memory with cues also of text and cues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.domain.cues import CueVectors
from worker.domain.memory import Memory, Vector
from worker.domain.vectors import packed
from worker.ports.models import Embedder
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
    """Return the texts to embed: the content after its context, and with cues both together and each cue."""
    if not memory.cues:
        return [passage_text(memory)]
    cues = [cue.text for cue in memory.cues]
    text = passage_text(memory)
    return [text, "\n".join([text[:JOINT_CHARS], *cues]), *cues]


def assembled(memory: Memory, vectors: Mapping[str, Vector | None]) -> MemoryVectors:
    """Return the vectors of a memory, given those of its texts."""
    own, *others = (vectors[text] for text in texts_of(memory))
    found = [vector for vector in (own, *others) if vector is not None]
    if own is None or not others or len(found) <= len(memory.cues) + 1:
        return MemoryVectors(own)
    return MemoryVectors(own, CueVectors(found[1], packed([own, *found[2:]])))
