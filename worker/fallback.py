"""Chooses without a model: only what search is confident of."""

from hooks.contract import Engine

from .deadline import Deadline
from .models import Candidate, Dropped, EmbedderProfile, Recalled, RecallTool, Selection, SelectionTask, Verdict
from .settings import InjectionConfig

NO_DENSE_CONFIDENCE = 0.0


class DeterministicSelector:
    """Keeps the candidates that are confidently near the query and close to the best one."""

    def __init__(self, profile: EmbedderProfile | None) -> None:
        self._profile = profile

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection:
        return choose(recalled, config, self._profile)


def choose(recalled: Recalled, config: InjectionConfig, profile: EmbedderProfile | None) -> Selection:
    """The deterministic choice, best first. Pure."""
    best = max((candidate.score for candidate in recalled.candidates), default=0.0)
    confident = config.confident_score
    if confident is None:
        confident = profile.confident if profile else NO_DENSE_CONFIDENCE
    chosen: list[Candidate] = []
    dropped: list[Dropped] = []
    for candidate in recalled.candidates:
        near = candidate.score >= config.relative_cut * best and _is_confident(candidate, confident, config)
        if not near:
            dropped.append(Dropped(candidate, Verdict.BELOW_CUT))
        elif len(chosen) >= config.max_items:
            dropped.append(Dropped(candidate, Verdict.OVER_ITEMS))
        else:
            chosen.append(candidate)
    return Selection(tuple(chosen), Engine.DETERMINISTIC, tuple(dropped))


def _is_confident(candidate: Candidate, confident: float, config: InjectionConfig) -> bool:
    if candidate.cosine is None:
        return (candidate.keyword or 0.0) > 0.0
    return candidate.cosine >= confident or (candidate.keyword or 0.0) >= config.keyword_min_score


def is_unsure(selection: Selection) -> bool:
    """Whether something came near enough to be a candidate, but not near enough to be chosen."""
    return any(entry.verdict is Verdict.BELOW_CUT for entry in selection.dropped)
