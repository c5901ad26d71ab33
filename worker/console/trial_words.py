"""Trials of a message side by side: what each way of choosing would give, and why. Pure."""

from collections.abc import Sequence

from pydantic import BaseModel

from worker.domain.receipt import Receipt
from worker.receipts.explaining import explain
from worker.receipts.trial_models import Trial, Way

from .request_words import CandidateRow, Mark, candidates_of, mark_of, tokens_of
from .words import counted, milliseconds

NAMES = {
    Way.SEARCH: "Search scores",
    Way.RELEVANCE: "Relevance model",
    Way.MODEL: "The agent's model",
    Way.PROMPT: "With the edited prompt",
}


class TriedWay(BaseModel):
    """What one way of choosing would give, and how long it took; `late` says if that is too long."""

    way: Way
    name: str
    mark: Mark
    decided: str
    elapsed_ms: float
    late: str | None
    tokens: str | None
    cost: float | None
    notes: list[str]
    block: str | None


class TriedFate(BaseModel):
    """What became of a memory in one way of choosing."""

    given: bool
    why: str
    chance: float | None


class TriedMemory(BaseModel):
    """A memory, and its fates in the order of the ways, `None` where it was no candidate.

    It is `changed` if one of the last two ways would give it and the other would not.
    """

    id: str
    type: str
    text: str
    deleted: bool
    cue: str | None
    meaning: float | None
    words: float | None
    legs: list[str]
    fates: list[TriedFate | None]
    changed: bool


class Tried(BaseModel):
    """The trials of one message. `summary` says in a line how the last two differ."""

    summary: str
    ways: list[TriedWay]
    memories: list[TriedMemory]


def tried_of(trials: Sequence[Trial]) -> Tried:
    """Return trials of the same message side by side, memories first that any of them would give."""
    found = [{row.id: row for row in candidates_of(trial.receipt)} for trial in trials]
    given = [key for rows in found for key, row in rows.items() if row.given]
    order = dict.fromkeys([*given, *(key for rows in found for key in rows)])
    memories = [_memory(key, [rows.get(key) for rows in found]) for key in order]
    return Tried(
        summary=_summary(trials, memories), ways=[_way(trial, trial.receipt) for trial in trials], memories=memories
    )


def _way(trial: Trial, receipt: Receipt) -> TriedWay:
    chosen = len(receipt.chosen)
    return TriedWay(
        way=trial.way,
        name=NAMES[trial.way],
        mark=mark_of(receipt.outcome, receipt.reason, chosen, degraded=receipt.degraded),
        decided=explain(receipt).decided,
        elapsed_ms=receipt.elapsed_ms,
        late=_late(trial),
        tokens=tokens_of(receipt),
        cost=receipt.model.cost if receipt.model else None,
        notes=list(receipt.notes),
        block=receipt.block,
    )


def _late(trial: Trial) -> str | None:
    if trial.receipt.elapsed_ms <= trial.limit_ms:
        return None
    return f"Too slow for this agent: its requests wait for {milliseconds(trial.limit_ms)}, then the first choice goes."


def _memory(key: str, rows: Sequence[CandidateRow | None]) -> TriedMemory:
    one = next(row for row in rows if row is not None)
    fates = [TriedFate(given=row.given, why=row.why, chance=row.chance) if row else None for row in rows]
    return TriedMemory(
        **one.model_dump(include={"type", "text", "deleted", "cue", "meaning", "words", "legs"}),
        id=key,
        fates=fates,
        changed=len({fate is not None and fate.given for fate in fates[-2:]}) > 1,
    )


def _summary(trials: Sequence[Trial], memories: Sequence[TriedMemory]) -> str:
    """Compare the last way with the one before: with the relevance model, or with the prompt in force."""
    given = "; ".join(f"{NAMES[one.way]}: {_count(len(one.receipt.chosen))}" for one in trials[-2:])
    apart = sum(one.changed for one in memories)
    return f"{given}. {f'They differ in {_count(apart)}.' if apart else 'Both choose the same.'}"


def _count(number: int) -> str:
    return counted(number, "memory", "memories")
