"""Select by search scores alone."""

from hooks.contract import Engine
from worker.domain.deadline import Deadline
from worker.domain.memory import (
    Candidate,
    CandidateVerdict,
    Dropped,
    EmbedderProfile,
    Recalled,
    RecallTool,
    Selection,
    SelectionTask,
)
from worker.settings.injection import InjectionConfig


class SearchOnlySelector:
    """Select confident candidates that are not much less relevant than the best one."""

    def __init__(self, profile: EmbedderProfile | None) -> None:
        self._profile = profile

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection:
        return choose(recalled, config, self._profile)


def choose(recalled: Recalled, config: InjectionConfig, profile: EmbedderProfile | None) -> Selection:
    """Return the confident candidates within `relative_cut` of the best, in the given order. Pure."""
    best = max((candidate.relevance for candidate in recalled.candidates), default=0.0)
    chosen: list[Candidate] = []
    dropped: list[Dropped] = []
    for candidate in recalled.candidates:
        confident = candidate.relevance >= _threshold(candidate, config, profile)
        if not confident or candidate.relevance < config.relative_cut * best:
            dropped.append(Dropped(candidate, CandidateVerdict.BELOW_CUT))
        elif len(chosen) >= config.max_items:
            dropped.append(Dropped(candidate, CandidateVerdict.OVER_ITEMS))
        else:
            chosen.append(candidate)
    return Selection(tuple(chosen), Engine.DETERMINISTIC, tuple(dropped))


def _threshold(candidate: Candidate, config: InjectionConfig, profile: EmbedderProfile | None) -> float:
    """Return the least relevance; 0 without vectors, since every candidate passed the keyword threshold."""
    if profile is None or candidate.cosine is None:
        return 0.0
    return profile.confident if config.confident_score is None else config.confident_score


def is_unsure(selection: Selection) -> bool:
    """Return whether to ask a model: the selection says so, or it dropped a candidate below its threshold."""
    if selection.unsure is not None:
        return selection.unsure
    return any(entry.verdict is CandidateVerdict.BELOW_CUT for entry in selection.dropped)
