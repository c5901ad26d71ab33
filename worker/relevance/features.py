"""Features of a request and its candidates for the relevance model. Pure.

They describe the search scores and ranks of a candidate, the task, the memory, and how task and memory match by words,
names, figures and word pieces. Pieces are compared by the similarity of each to the nearest of the other text (Khattab
and Zaharia 2020, "ColBERT"), with fixed vectors instead of a model run.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worker.domain.kinds import SearchKind
from worker.domain.memory import Candidate, Memory, MemoryType, SelectionTask, is_superseded
from worker.recall.ranking import SECONDS_PER_DAY, USUAL_SIZE, keyword_unit
from worker.text.names import folded, passage_text
from worker.text.word_lists import FUNCTION_WORDS
from worker.text.wording import marks

from .columns import Column, column, same
from .matching import matches
from .questions import answers
from .text_features import MAKE, MINE, OURS, QUESTION, TEXTBOOK, UNSPACED_SCRIPTS, WORD, clipped, foreign, note

Matrix = npt.NDArray[np.float32]

CONTEXT_CHARS = 500
"""Characters read from the end of earlier turns."""

MOST_RECENT = 3
ONE_THREAD = 2**17
"""Multiplications in one matrix product that BLAS runs in a single thread."""

NEAR = 0.6
"""Least similarity of two matching word pieces."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The word pieces of a text: unit vectors as rows, and rarities from 0 (common) to 1."""

    vectors: Matrix
    rarity: Column


Cutter = Callable[[str], Pieces]


@dataclass(frozen=True, slots=True)
class RelevanceInput:
    """A request with its candidates and query vector; `size` is the tenant's number of memories."""

    task: SelectionTask
    candidates: tuple[Candidate, ...]
    size: int
    vector: Column


def _context(task: SelectionTask) -> str:
    return " ".join(turn.content for turn in task.recent_messages[-MOST_RECENT:])[-CONTEXT_CHARS:]


def _task_text(task: SelectionTask) -> str:
    """Return the message, with the task description if it differs."""
    more = task.task_description or ""
    return clipped(task.message if more.split() == task.message.split() or not more else f"{task.message} | {more}")


def features(inputs: RelevanceInput, cut: Cutter) -> dict[str, Column]:
    """Return the columns by name, one value per candidate; there must be at least one candidate."""
    message, context = _task_text(inputs.task), _context(inputs.task)
    texts = [passage_text(candidate.memory) for candidate in inputs.candidates]
    whole = f"{context} {message}" if context else message
    by_words, by_pieces = _by_words("m", message, inputs), _by_pieces("m", message, texts, cut)
    return {
        **_search_scores(inputs),
        **_pool(inputs),
        **_of_task(inputs, message, context),
        **_of_memory(inputs),
        **by_words,
        **(_by_words("c", whole, inputs) if context else _renamed(by_words)),
        **by_pieces,
        **(_by_pieces("c", whole, texts, cut) if context else _renamed(by_pieces)),
        **_by_person(inputs, message),
        **matches(message, texts),
        **answers(message, texts),
        "s_size": same(float(np.log1p(inputs.size)), len(texts)),
        **_by_cues(inputs),
    }


def _renamed(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Use the message's columns as those of the message with context."""
    return {f"c{name[1:]}": column for name, column in columns.items()}


def _search_scores(inputs: RelevanceInput) -> dict[str, Column]:
    unit = keyword_unit(inputs.size)
    scale = float(np.log(1.0 + USUAL_SIZE)) / unit
    found = inputs.candidates
    return {
        "cosine": column(one.cosine or 0.0 for one in found),
        "keyword": column((one.keyword or 0.0) * scale for one in found),
        "relevance": column(one.relevance for one in found),
        "score": column(one.score for one in found),
        "beside": column(one.score - one.relevance for one in found),
        "legs": column(len(one.legs) for one in found),
        **{
            f"leg_{search_kind}": column(search_kind in one.legs for one in found)
            for search_kind in SearchKind
            if search_kind is not SearchKind.PINNED
        },
    }


def _pool(inputs: RelevanceInput) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for name in ("relevance", "cosine", "score"):
        values = column(getattr(one, name) or 0.0 for one in inputs.candidates)
        ordered = np.sort(values)[::-1]
        ranks = np.argsort(np.argsort(-values, kind="stable"), kind="stable").astype(np.float32)
        spread = float(values.std()) + 1e-3
        columns |= {
            f"{name}_rank": ranks,
            f"{name}_gap": values - ordered[0],
            f"{name}_z": (values - values.mean()) / spread,
            f"{name}_best": same(float(ordered[0]), len(values)),
            f"{name}_lead": same(float(ordered[0] - ordered[min(1, len(ordered) - 1)]), len(values)),
            f"{name}_fifth": same(float(ordered[min(4, len(ordered) - 1)]), len(values)),
        }
    vectors = _vectors(inputs)
    near = products(vectors, vectors)
    return columns | {"central": near.mean(axis=1), "near_best": near[:, 0], "pool": same(len(vectors), len(vectors))}


def _vectors(inputs: RelevanceInput) -> Matrix:
    blank = np.zeros(len(inputs.vector), dtype=np.float32)
    return np.array([blank if one.vector is None else one.vector for one in inputs.candidates], dtype=np.float32)


def _of_task(inputs: RelevanceInput, message: str, context: str) -> dict[str, Column]:
    number = len(inputs.candidates)
    told, words = marks(message), WORD.findall(message)
    told_words = [word.casefold() for word in words]
    values = {
        "chars": float(len(inputs.task.message)),
        "words": float(len(words)),
        "content": float(sum(word not in FUNCTION_WORDS for word in told_words)),
        "lines": float(inputs.task.message.count("\n")),
        "code": float(len(re.findall(r"[`{}<>=;$\\|]", message))) / (1.0 + len(words)),
        "quoted": float(len(re.findall(r"[\"“«”»]", message))),
        "ends_asking": float(message.rstrip().endswith(("?", "？"))),
        "asks": float(bool(QUESTION.search(message))),
        "ours": float(len(OURS.findall(message))),
        "mine": float(len(MINE.findall(message))),
        "makes": float(len(MAKE.findall(message))),
        "textbook": float(len(TEXTBOOK.findall(message))),
        "task_names": float(len(told.names)),
        "task_figures": float(len(told.figures)),
        "context": float(min(len(context), CONTEXT_CHARS)),
        "borrowed": float(len(inputs.task.query)) / (1.0 + len(inputs.task.message)),
        "foreign": foreign(message),
        "task_described": float((inputs.task.task_description or "").split() not in ([], inputs.task.message.split())),
    }
    return {f"t_{name}": same(value, number) for name, value in values.items()}


def _of_memory(inputs: RelevanceInput) -> dict[str, Column]:
    memories = [one.memory for one in inputs.candidates]
    notes = [note(memory.content) for memory in memories]
    now = inputs.task.now
    days = [
        (now - memory.created_at).total_seconds() / SECONDS_PER_DAY if memory.created_at else 0.0 for memory in memories
    ]
    newest = min(days)
    return {
        "importance": column(memory.importance for memory in memories),
        "age": column(days),
        "age_gap": column(age - newest for age in days),
        "superseded": column(is_superseded(memory, now) for memory in memories),
        "replaces": column(
            any(link.kind in ("updates", "supersedes") for link in memory.relations) for memory in memories
        ),
        "relations": column(len(memory.relations) for memory in memories),
        "entities": column(len(memory.entities) for memory in memories),
        "m_chars": column(note.chars for note in notes),
        "m_rule": column(note.rule for note in notes),
        "m_planted": column(note.planted for note in notes),
        "m_told": column(note.told for note in notes),
        "m_figures": column(len(note.marks.figures) for note in notes),
        "m_negated": column(note.marks.negated for note in notes),
        "m_foreign": column(note.foreign for note in notes),
        **{f"is_{kind}": column(memory.type is kind for memory in memories) for kind in MemoryType},
    }


def _by_words(prefix: str, text: str, inputs: RelevanceInput) -> dict[str, Column]:
    """Return shared words, names, figures and entities; words are weighted by their rarity among the candidates."""
    told = marks(text)
    notes = [note(passage_text(one.memory)).marks for one in inputs.candidates]
    wanted = sorted(told.words - FUNCTION_WORDS)
    holders = {word: sum(word in note.words for note in notes) for word in wanted}
    weights = {word: float(np.log(1.0 + len(notes) / (1.0 + holders[word]))) for word in wanted}
    total = sum(weights.values()) + 1e-6
    shared = [[word for word in wanted if word in note.words] for note in notes]
    entities = [_entity_share(one.memory, told.folded) for one in inputs.candidates]
    return {
        f"{prefix}_shared": column(len(words) for words in shared),
        f"{prefix}_share": column(sum(weights[word] for word in words) / total for words in shared),
        f"{prefix}_rarest": column(max((weights[word] for word in words), default=0.0) for words in shared),
        f"{prefix}_alone": column(sum(holders[word] == 1 for word in words) for words in shared),
        f"{prefix}_names": column(len((told.names | told.leading) & note.words) for note in notes),
        f"{prefix}_figures": column(len(told.figures & note.figures) for note in notes),
        f"{prefix}_other_figures": column(len(told.figures - note.figures) for note in notes),
        f"{prefix}_entities": column(count for count, _ in entities),
        f"{prefix}_entity_share": column(share for _, share in entities),
        f"{prefix}_unheld": same(sum(count == 0 for count in holders.values()) / max(1, len(wanted)), len(notes)),
    }


def _entity_share(memory: Memory, text: str) -> tuple[float, float]:
    """Return the number and share of a memory's entities that occur in a folded text."""
    found = sum(folded(entity) in text for entity in memory.entities)
    return float(found), found / max(1, len(memory.entities))


def _by_pieces(prefix: str, text: str, texts: Sequence[str], cut: Cutter) -> dict[str, Column]:
    """Return the similarities of word pieces to the nearest of the other text, both ways, weighted by rarity."""
    query, notes = cut(text), [cut(note) for note in texts]
    near = [products(query.vectors, note.vectors) for note in notes]
    nearest = np.array([np.maximum.reduce(one, axis=1) for one in near])
    rows = [_back(np.maximum.reduce(one, axis=0), note.rarity) for one, note in zip(near, notes, strict=True)]
    back = dict(zip(BACK, np.array(rows, dtype=np.float32).T, strict=True))
    covered = float((nearest.max(axis=0) * query.rarity).sum() / (query.rarity.sum() + 1e-6))
    columns = {**_forth(nearest, query.rarity), **back, "covered": same(covered, len(texts))}
    return {f"{prefix}_{name}": column for name, column in columns.items()}


def products(one: Matrix, other: Matrix) -> Matrix:
    """Return `one @ other.T`, computed in parts small enough for one thread: on busy cores, BLAS threads wait for each
    other ten times longer."""
    step = max(1, ONE_THREAD // (other.size + 1))
    return np.concatenate([one[start : start + step] @ other.T for start in range(0, len(one), step)])


def _forth(nearest: Matrix, rarity: Column) -> dict[str, Column]:
    """Return how near the message's pieces come to those of each note; `nearest` has the shape (notes, pieces)."""
    weighted, ranked = nearest * rarity, np.sort(nearest, axis=1)
    return {
        "forth": weighted.sum(axis=1) / (rarity.sum() + 1e-6),
        "forth_top": ranked[:, -3:].mean(axis=1),
        "forth_low": ranked[:, ranked.shape[1] // 4],
        "forth_near": (nearest >= NEAR).mean(axis=1).astype(np.float32),
        "forth_rare": weighted.max(axis=1),
    }


def _back(nearest: Column, rarity: Column) -> tuple[float, ...]:
    """Return how near a note's pieces come to those of the message: `BACK`."""
    weighted = nearest * rarity
    return (
        _total(weighted) / (_total(rarity) + 1e-6),
        _total(np.sort(nearest)[-3:]) / min(3, len(nearest)),
        np.count_nonzero(nearest >= NEAR) / len(nearest),
        np.maximum.reduce(weighted),
    )


BACK = ("back", "back_top", "back_near", "back_rare")
_total = np.add.reduce  # the methods of arrays take three times as long, and this runs for every candidate


def _by_person(inputs: RelevanceInput, message: str) -> dict[str, Column]:
    """Return whether a memory belongs to the user or mentions them, and whether channel and language match."""
    task, memories = inputs.task, [one.memory for one in inputs.candidates]
    who = folded(task.user or "")
    language = foreign(message)
    return {
        "own": column(bool(who) and folded(memory.scope.user or "") == who for memory in memories),
        "of_asker": column(_speaks_of(memory, who) for memory in memories),
        "same_channel": column(task.channel is not None and memory.channel == task.channel for memory in memories),
        "language_gap": column(abs(foreign(memory.content) - language) for memory in memories),
        "scripts_differ": column(
            bool(UNSPACED_SCRIPTS.search(memory.content)) != bool(UNSPACED_SCRIPTS.search(message))
            for memory in memories
        ),
        "by_person": same(task.source == "user", len(memories)),
    }


def _by_cues(inputs: RelevanceInput) -> dict[str, Column]:
    """Return how near the query is to a memory's own text and to its cues, beside the best cue of the others."""
    found = inputs.candidates
    best = column(one.cues.cosine if one.cues else 0.0 for one in found)
    ordered = np.sort(best)[::-1]
    second = ordered[min(1, len(ordered) - 1)] if len(ordered) > 1 else np.float32(0.0)
    others = np.where(best == ordered[0], second, ordered[0])
    return {
        "own_cosine": column(one.own_cosine or 0.0 for one in found),
        "cue_cosine": best,
        "cue_lead": (best - others).astype(np.float32),
        "cues_near": column(one.cues.near if one.cues else 0 for one in found),
        "cues": column(len(one.memory.cues) for one in found),
    }


def _speaks_of(memory: Memory, who: str) -> bool:
    first = who.split(maxsplit=1)[0] if who.split() else ""
    return len(first) > 1 and (
        first in note(memory.content).marks.words or any(folded(name) == who for name in memory.entities)
    )


def table_of(columns: Mapping[str, Column], names: Sequence[str]) -> Matrix:
    """Return the named columns as a matrix with one row per candidate."""
    return np.stack([columns[name] for name in names], axis=1)
