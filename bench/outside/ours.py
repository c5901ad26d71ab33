"""What the product injects for the tasks of labelled worlds, and in which order it ranks their candidates."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rich.progress import Progress

from hooks.contract import Engine
from worker.adapters.models.minilm import make_tokenizer
from worker.adapters.models.relevance_file import PieceCutter, read_relevance_model
from worker.cli.local import open_local
from worker.domain.kinds import RelevanceProfile
from worker.relevance.model import Adjustment, in_order, probabilities
from worker.settings.injection import Strategy
from worker.settings.service import ServiceSettings
from worker.tuning.evals.plan import EvaluationPlan
from worker.tuning.evals.prompt_files import prompts_in_force
from worker.tuning.evals.results import Report, TaskRun
from worker.tuning.evals.runner import evaluate
from worker.tuning.labelled_worlds import LabelledWorld
from worker.tuning.relevance_cases import RelevanceCase
from worker.tuning.world_store import open_world_store

from ..processes import scratch
from ..progress import bar
from .scoring import Chosen, Ranked

DEADLINE_MS = 30_000
MORE_TRIES = 3
SEARCH_ALONE = "search thresholds alone"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    **{
        f"relevance model, {profile}": {"strategy": Strategy.RELEVANCE, "relevance_profile": profile}
        for profile in RelevanceProfile
    },
    SEARCH_ALONE: {"strategy": Strategy.DETERMINISTIC},
}
"""Settings of `[memory_injection]` by name; everything else is at its default."""

BALANCED = f"relevance model, {RelevanceProfile.BALANCED}"


@dataclass(frozen=True, slots=True)
class Orders:
    """The candidates of all tasks in the order of the search and in that of the relevance model."""

    search: tuple[Ranked, ...]
    relevance_model: tuple[Ranked, ...]


async def injected(worlds: Sequence[LabelledWorld], progress: Progress) -> dict[str, list[TaskRun]]:
    """Run every task through the whole service, once per variant; each in its own session, without a chat model."""
    service = ServiceSettings(model="none", log_level="error")
    runs = {}
    for name, settings in VARIANTS.items():
        plan = EvaluationPlan(
            service=service,
            config=settings,
            prompts=tuple(prompts_in_force(service).values()),
            models=(),
            worlds=tuple(worlds),
            hashes={world.name: "" for world in worlds},
            parallel=1,
            deadline_ms=DEADLINE_MS,
        )
        runs[name] = await _runs(plan, name, progress)
    return runs


async def _runs(plan: EvaluationPlan, name: str, progress: Progress) -> list[TaskRun]:
    """Run a plan; ask again what fell back because the machine was busy."""
    runs = list((await _evaluated(plan, name, progress)).runs)
    for _ in range(MORE_TRIES):
        late = {run.key for run in runs if fallen_back(name, run)}
        if not late:
            break
        again = {run.key: run for run in (await _evaluated(_only(plan, late), name, progress)).runs}
        runs = [again.get(run.key, run) for run in runs]
    return runs


def _only(plan: EvaluationPlan, keys: Collection[tuple[str, str]]) -> EvaluationPlan:
    """Return the plan with these tasks alone."""
    worlds = (
        replace(world, tasks=tuple(task for task in world.tasks if (world.name, task.key) in keys))
        for world in plan.worlds
    )
    return replace(plan, worlds=tuple(world for world in worlds if world.tasks))


async def _evaluated(plan: EvaluationPlan, name: str, progress: Progress) -> Report:
    task = progress.add_task(name, total=plan.runs)
    try:
        return await evaluate(
            plan,
            lambda settings: open_local(settings, with_model=False),
            archive=None,
            advance=lambda done: progress.advance(task, done),
            now=datetime.now(UTC),
        )
    finally:
        progress.remove_task(task)


def chosen(worlds: Sequence[LabelledWorld], runs: Sequence[TaskRun]) -> list[Chosen]:
    """Return each task with the ids injected for it."""
    tasks = {(world.name, task.key): task for world in worlds for task in world.tasks}
    return [(tasks[run.key], run.injected) for run in runs]


def fallen_back(name: str, run: TaskRun) -> bool:
    """Return whether something failed, or search scores chose although the relevance model should have."""
    return run.degraded or (name != SEARCH_ALONE and run.engine is Engine.DETERMINISTIC and bool(run.injected))


async def orders(worlds: Sequence[LabelledWorld], progress: Progress) -> Orders:
    """Recall candidates for every task, as the service does for the relevance model."""
    cases: list[RelevanceCase] = []
    with scratch() as folder, bar(progress, "recalling", sum(len(world.tasks) for world in worlds)) as advance:
        async with open_world_store(folder) as world_store:
            for world in worlds:
                cases += await world_store.cases(world, advance)
    file = read_relevance_model()
    cut = PieceCutter(file.table, make_tokenizer())
    by_search, by_model = [], []
    for case in cases:
        candidates = case.inputs.candidates if case.inputs else ()
        by_search.append(Ranked(case.labels, tuple((one.memory.id, one.score) for one in candidates)))
        if case.inputs is not None:
            ranked = in_order(candidates, probabilities(file.relevance_model.scores(case.inputs, cut), Adjustment()))
            pairs = zip(ranked.candidates, ranked.probabilities, strict=True)
            by_model.append(Ranked(case.labels, tuple((one.memory.id, value) for one, value in pairs)))
        else:
            by_model.append(by_search[-1])
    return Orders(tuple(by_search), tuple(by_model))
