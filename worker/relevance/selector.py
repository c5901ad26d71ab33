"""The relevance model as a way to choose: probabilities, a threshold, and the plain gate where it cannot be asked."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import structlog

from hooks.contract import Engine
from worker.domain.deadline import Deadline
from worker.domain.errors import EmbedderError, RelevanceError
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, Recalled, RecallTool, Selection, SelectionTask
from worker.ports.models import Embedder, Selector
from worker.settings.injection import InjectionConfig

from .features import Column, RelevanceInput
from .model import CandidateProbabilities, RelevanceModel, in_order, is_unsure

log = structlog.get_logger()

MOST_S = 0.25
"""Seconds that a judgement may take; the plain gate needs none, and what follows needs the rest."""

LEAST_S = 0.02
"""With less than this left the plain gate decides at once."""

PER_CANDIDATE_S = 0.002
"""Seconds that one candidate takes at most on a busy machine; with less time fewer are judged, the best first."""

MOST_SCORED = 50
"""Candidates that are judged at most, the best of the search; what it was fitted to were thirty, and deep in a longer
pool the search knows better."""

BESIDE_THE_POINT = 0.0005
"""Probability under which a model need not look at a candidate: no essential memory that was measured had less."""


class RelevanceRunner(Protocol):
    """A relevance model that can be asked. `probabilities` raises `RelevanceError`."""

    @property
    def relevance_model(self) -> RelevanceModel: ...

    async def probabilities(self, inputs: RelevanceInput) -> Column: ...


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the relevance model said of the candidates that there was time for, and the others."""

    ranked: CandidateProbabilities
    left: tuple[Candidate, ...]


class RelevanceSelector:
    """Implements `worker.ports.models.Selector`. `plain` decides without vectors or without time."""

    def __init__(self, runner: RelevanceRunner, embedder: Embedder, plain: Selector, *, most_s: float = MOST_S) -> None:
        self._runner = runner
        self._embedder = embedder
        self._plain = plain
        self._most_s = most_s

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection:
        answer, fault = await self._asked(task, recalled, deadline)
        if answer is None:
            selection = await self._plain.select(task, recalled, recall, config, deadline)
            return replace(selection, notes=(*selection.notes, *([fault] if fault else [])))
        return _selection(answer, config, self._runner.relevance_model)

    async def _asked(
        self, task: SelectionTask, recalled: Recalled, deadline: Deadline
    ) -> tuple[_Answer | None, str | None]:
        """What the relevance model says, or why it says nothing."""
        if not recalled.candidates:
            return None, None
        if any(candidate.cosine is None for candidate in recalled.candidates):
            return None, "relevance model: there are no vectors to judge by, so the search's scores decide"
        limit = deadline.within(self._most_s).remaining()
        if limit < LEAST_S:
            return None, "relevance model: no time was left, so the search's scores decide"
        number = max(1, min(MOST_SCORED, int(limit / PER_CANDIDATE_S)))
        try:
            async with asyncio.timeout(limit):
                return await self._answer(task, recalled, number), None
        except TimeoutError:
            return None, "relevance model: it was not done in time, so the search's scores decide"
        except (RelevanceError, EmbedderError) as error:
            log.warning("judge_failed", error=str(error))
            return None, f"relevance model: {error}"

    async def _answer(self, task: SelectionTask, recalled: Recalled, number: int) -> _Answer:
        vector = np.array(await self._embedder.embed_query(task.query), dtype=np.float32)
        candidates, left = recalled.candidates[:number], recalled.candidates[number:]
        likely = await self._runner.probabilities(RelevanceInput(task, candidates, recalled.size, vector))
        return _Answer(in_order(candidates, likely), left)


def _selection(answer: _Answer, config: InjectionConfig, relevance_model: RelevanceModel) -> Selection:
    threshold = relevance_model.thresholds[config.relevance_profile]
    candidates = answer.ranked.candidates
    passing = answer.ranked.passing(threshold)
    chosen = min(passing, config.max_items)
    dropped = [Dropped(candidate, CandidateVerdict.OVER_ITEMS) for candidate in candidates[chosen:passing]]
    dropped += [Dropped(candidate, CandidateVerdict.BELOW_CUT) for candidate in candidates[passing:]]
    dropped += [Dropped(candidate, CandidateVerdict.NOT_SELECTED) for candidate in answer.left]
    return Selection(
        chosen=candidates[:chosen],
        engine=Engine.RELEVANCE_MODEL,
        dropped=tuple(dropped),
        probabilities=_by_id(answer.ranked),
        unsure=is_unsure(answer.ranked, relevance_model.thresholds),
    )


def _by_id(ranked: CandidateProbabilities) -> Mapping[str, float]:
    pairs = zip(ranked.candidates, ranked.probabilities, strict=True)
    return {candidate.memory.id: round(likely, 4) for candidate, likely in pairs}


def worth_asking(recalled: Recalled, settled: Selection) -> tuple[Recalled, list[Dropped]]:
    """What a model should look at, the likeliest first, and what the relevance model says is beside the point."""
    if settled.engine is not Engine.RELEVANCE_MODEL:
        return recalled, []
    likely = settled.probabilities
    worth = [one for one in recalled.candidates if likely.get(one.memory.id, 1.0) >= BESIDE_THE_POINT]
    ordered = sorted(worth, key=lambda one: -likely.get(one.memory.id, 0.0))
    known = {one.memory.id for one in worth}
    beside = [Dropped(one, CandidateVerdict.BELOW_CUT) for one in recalled.candidates if one.memory.id not in known]
    return replace(recalled, candidates=tuple(ordered)), beside


def with_probabilities(selection: Selection, settled: Selection) -> Selection:
    """A choice of a model with what the model had said, for the receipt; the model's own probabilities win."""
    return replace(selection, probabilities={**settled.probabilities, **selection.probabilities})
