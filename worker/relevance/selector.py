"""Select with the relevance model, or by search scores if it is not usable."""

import asyncio
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import structlog

from hooks.contract import Engine, Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import EmbedderError, RelevanceError
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, Recalled, RecallTool, Selection, SelectionTask
from worker.ports.models import Embedder, Selector
from worker.settings.injection import InjectionConfig
from worker.text.excerpts import LONG_CHARS, PIECE_CHARS, excerpt

from .columns import Column
from .features import RelevanceInput
from .model import CandidateProbabilities, RelevanceModel, in_order, is_unsure

log = structlog.get_logger()

SHARE, SHARE_LEAST_S = 1 / 3, 0.25
"""Share of the time left for scoring, and the least seconds; the rest of the request needs the remaining time."""

LEAST_S = 0.02
"""Least seconds for scoring; with less, search scores decide."""

PER_CANDIDATE_S = 0.002
"""Most seconds per candidate on a busy machine; if time is short, only the first candidates are scored."""

MOST_SCORED = 50
"""Most candidates to score. The model was fitted to pools of thirty; further down, search ranks better."""

MIN_PROBABILITY = 0.0025
"""Least probability to show a candidate to a model; 99.7 % of the essential memories measured had more."""

MIN_BEST = 0.035
"""Least probability of the best candidate for which a model is asked; 99.5 % of the tasks that need memory had more."""

NO_TIME = "relevance model: no time left, so search scores decide"
NOT_DONE = "relevance model: not done in time, so search scores decide"
LATE = frozenset({NO_TIME, NOT_DONE})
"""Notes that say that the machine was too busy."""


class RelevanceRunner(Protocol):
    """Run a relevance model. `probabilities` raises `RelevanceError` if it fails."""

    @property
    def relevance_model(self) -> RelevanceModel: ...

    async def probabilities(self, inputs: RelevanceInput) -> Column: ...


@dataclass(frozen=True, slots=True)
class _Scored:
    """The scored candidates, and those that there was no time for."""

    ranked: CandidateProbabilities
    unscored: tuple[Candidate, ...]


class RelevanceSelector:
    """Select with the relevance model. `plain` selects if vectors or time are missing."""

    def __init__(self, runner: RelevanceRunner, embedder: Embedder, plain: Selector) -> None:
        self._runner = runner
        self._embedder = embedder
        self._plain = plain

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection:
        scored, fault = await self._try_score(task, recalled, deadline)
        if scored is None:
            selection = await self._plain.select(task, recalled, recall, config, deadline)
            notes = (*selection.notes, *([fault] if fault else []))
            return replace(selection, notes=notes, failure=Reason.OVERLOADED if fault in LATE else None)
        return _selection(scored, config, self._runner.relevance_model)

    async def _try_score(
        self, task: SelectionTask, recalled: Recalled, deadline: Deadline
    ) -> tuple[_Scored | None, str | None]:
        """Return the scored candidates, or the reason why there are none."""
        if not recalled.candidates:
            return None, None
        if any(candidate.cosine is None for candidate in recalled.candidates):
            return None, "relevance model: no vectors, so search scores decide"
        limit = deadline.share(SHARE, least=SHARE_LEAST_S).remaining()
        if limit < LEAST_S:
            return None, NO_TIME
        number = max(1, min(MOST_SCORED, int(limit / PER_CANDIDATE_S)))
        try:
            async with asyncio.timeout(limit):
                return await self._score(task, recalled, number), None
        except TimeoutError:
            return None, NOT_DONE
        except (RelevanceError, EmbedderError) as error:
            log.warning("relevance_model_failed", error=str(error))
            return None, f"relevance model: {error}"

    async def _score(self, task: SelectionTask, recalled: Recalled, number: int) -> _Scored:
        vector = np.array(await self._embedder.embed_query(task.query), dtype=np.float32)
        candidates, unscored = recalled.candidates[:number], recalled.candidates[number:]
        read = tuple(_excerpted(candidate, task.query) for candidate in candidates)
        likely = await self._runner.probabilities(RelevanceInput(task, read, recalled.size, vector))
        return _Scored(in_order(candidates, likely), unscored)


def _excerpted(candidate: Candidate, query: str) -> Candidate:
    """Return a candidate with the part of a long text that says most of the query, as the model was fitted to."""
    memory = candidate.memory
    if len(memory.content) <= LONG_CHARS:
        return candidate
    return replace(candidate, memory=memory.model_copy(update={"content": excerpt(memory.content, PIECE_CHARS, query)}))


def _selection(scored: _Scored, config: InjectionConfig, relevance_model: RelevanceModel) -> Selection:
    candidates, probabilities = scored.ranked.candidates, scored.ranked.probabilities
    threshold = relevance_model.thresholds[config.relevance_profile]
    passing = scored.ranked.passing(threshold)
    chosen = min(passing, config.max_items)
    dropped = [Dropped(candidate, CandidateVerdict.OVER_ITEMS) for candidate in candidates[chosen:passing]]
    dropped += [Dropped(candidate, CandidateVerdict.BELOW_CUT) for candidate in candidates[passing:]]
    dropped += [Dropped(candidate, CandidateVerdict.NOT_SELECTED) for candidate in scored.unscored]
    return Selection(
        chosen=candidates[:chosen],
        engine=Engine.RELEVANCE_MODEL,
        dropped=tuple(dropped),
        probabilities={one.memory.id: round(p, 4) for one, p in zip(candidates, probabilities, strict=True)},
        required=threshold.keeps if passing else max(threshold.opens, threshold.keeps),
        unsure=is_unsure(scored.ranked, relevance_model.thresholds),
    )


def worth_asking(recalled: Recalled, settled: Selection) -> tuple[Recalled, list[Dropped]]:
    """Return the candidates to show to a model, most probable first, and drop improbable ones."""
    if settled.engine is not Engine.RELEVANCE_MODEL:
        return recalled, []
    likely = settled.probabilities
    least = MIN_PROBABILITY if max(likely.values(), default=1.0) >= MIN_BEST else 1.0
    worth = [one for one in recalled.candidates if likely.get(one.memory.id, 1.0) >= least]
    ordered = sorted(worth, key=lambda one: -likely.get(one.memory.id, 0.0))
    known = {one.memory.id for one in worth}
    beside = [Dropped(one, CandidateVerdict.BELOW_CUT) for one in recalled.candidates if one.memory.id not in known]
    return replace(recalled, candidates=tuple(ordered)), beside


def with_probabilities(selection: Selection, settled: Selection) -> Selection:
    """Add the relevance model's probabilities to a model's selection, whose own take precedence."""
    return replace(selection, probabilities={**settled.probabilities, **selection.probabilities})
