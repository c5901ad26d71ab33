"""Chooses without a model: only what search is confident of."""

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
    """Keeps the candidates that are confidently near the query and close to the best one."""

    def __init__(self, profile: EmbedderProfile | None) -> None:
        self._profile = profile

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection:
        return choose(recalled, config, self._profile)


def choose(recalled: Recalled, config: InjectionConfig, profile: EmbedderProfile | None) -> Selection:
    """The deterministic choice, best first: what is surely relevant, and not much less than the most relevant. Pure."""
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
    """The relevance to reach; without vectors, the floor of the keyword score has to do."""
    if profile is None or candidate.cosine is None:
        return 0.0
    return profile.confident if config.confident_score is None else config.confident_score


def is_unsure(selection: Selection) -> bool:
    """Whether a model is worth asking: whoever chose says so, or something came near enough to be a candidate and not
    near enough to be chosen."""
    if selection.unsure is not None:
        return selection.unsure
    return any(entry.verdict is CandidateVerdict.BELOW_CUT for entry in selection.dropped)
