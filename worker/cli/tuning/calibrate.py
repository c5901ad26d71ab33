"""`meeseeks eval calibrate`: fits the search thresholds and the relevance model to labelled tasks or a store."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.adapters.models.relevance_file import read_relevance_model
from worker.bootstrap.opening import make_embedder
from worker.cli.backend import open_client
from worker.cli.local import quiet_settings_of
from worker.cli.options import Agent, Tenant, User
from worker.cli.output import printed_as_json, say, show, table
from worker.cli.progress import progress_bar
from worker.cli.running import run_async
from worker.domain.errors import RelevanceError, SettingsError
from worker.domain.memory import EmbedderProfile
from worker.operations.client import OperationClient
from worker.operations.registry import RECALL
from worker.recall.ranking import KEYWORD_THRESHOLD
from worker.recall.thresholds import Thresholds, read_calibration, write_calibration
from worker.settings.injection import Settings
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld
from worker.tuning.relevance_fit import RelevanceFit
from worker.tuning.search_thresholds import (
    LEAST_MEMORIES,
    Observation,
    ObservedCandidate,
    ThresholdEffect,
    effect_of,
    from_labelled,
    from_off_topic,
    labelled_effect,
    off_topic_tasks,
    unseen_effect,
)

from .labelled_service import BUDGET_S, recall_of, store_world, worlds_service
from .relevance_common import CASES_HELP, fit_fields, fitted, kept, scored_tasks, show_fit, worlds_of, written_text

SEARCH_LIMIT = 60
NEEDS_LABELS = "fitting it needs labelled tasks; use --cases"

WORDS = {
    "passing": "tasks with relevant memories that have candidates",
    "kept": "relevant memories among the candidates",
    "stopped": "tasks without relevant memories that have no candidates",
    "clean": "tasks without relevant memories that inject nothing (without a model)",
}


@dataclass(frozen=True, slots=True)
class ThresholdComparison:
    """Thresholds before and after, with the effect of each on held-out tasks."""

    tasks: int
    before: Thresholds
    after: Thresholds
    effect_before: ThresholdEffect
    effect_after: ThresholdEffect


@dataclass(frozen=True, slots=True)
class Measured:
    """The fitted search thresholds and relevance model for an embedder, or why they could not be fitted."""

    profile: EmbedderProfile
    search: ThresholdComparison | str
    relevance_model: RelevanceFit | str


@dataclass(frozen=True, slots=True)
class _Requester:
    """The requester for whom memories are visible."""

    tenant: str
    user: str | None
    agent: str


@dataclass(frozen=True, slots=True)
class Written:
    """The files that were written."""

    search: Path | None = None
    relevance_model: Path | None = None


def calibrate(
    context: typer.Context,
    cases: Annotated[
        Path | None,
        typer.Option("--worlds", "--cases", help=CASES_HELP, exists=True),
    ] = None,
    store: Annotated[bool, typer.Option("--store", help="Use the stored memories and unrelated tasks.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Save the result; restart services to use it.")] = False,
    tenant: Tenant = "default",
    user: User = None,
    agent: Agent = "main",
) -> None:
    """Fit the search thresholds and the relevance model to labelled tasks, or only the thresholds to the store."""
    settings = quiet_settings_of(context)

    async def work() -> Measured:
        if store == (cases is not None):
            raise SettingsError("use either --store, or your labelled tasks with --cases")
        profile = _profile(settings)
        if cases is not None:
            return await _by_labels(settings, profile, worlds_of(cases))
        return await _by_store(settings, profile, _Requester(tenant, user, agent))

    measured = run_async(work())
    written = _keep(settings, measured) if write else Written()
    if not printed_as_json(_fields(measured, written)):
        _show(measured, written)


def _profile(settings: Settings) -> EmbedderProfile:
    """Return the calibrated profile of the configured embedder. Raise `SettingsError` if there is none."""
    embedder = make_embedder(settings.service)
    if embedder is None:
        raise SettingsError("cannot calibrate without an embedder; service.embedder is none")
    return read_calibration(settings.service.home, embedder.profile)


async def _by_labels(settings: Settings, profile: EmbedderProfile, worlds: Sequence[LabelledWorld]) -> Measured:
    """Fit the thresholds and the relevance model. Raise `SettingsError` if neither can be fitted."""
    observed = await _on_worlds(settings, worlds)
    before = Thresholds.of(profile, KEYWORD_THRESHOLD)
    search: ThresholdComparison | str
    try:
        after = from_labelled(observed)
        effects = effect_of(before, observed), labelled_effect(observed)
        search = ThresholdComparison(len(observed), before, after, *effects)
    except SettingsError as error:
        search = str(error)
    relevance_model = await _fitted(settings, profile, worlds)
    if isinstance(search, str) and isinstance(relevance_model, str):
        raise SettingsError(f"nothing can be fitted. search thresholds: {search}. relevance model: {relevance_model}")
    return Measured(profile, search, relevance_model)


async def _fitted(settings: Settings, profile: EmbedderProfile, worlds: Sequence[LabelledWorld]) -> RelevanceFit | str:
    """Fit the relevance model to the labels, or return why it cannot be fitted."""
    try:
        file = read_relevance_model()
        if file.relevance_model.fingerprint != profile.fingerprint:
            return f"it is off: it needs the embedder {file.card['embedder']['name']}, not {profile.name}"
        return fitted(settings, file, await scored_tasks(file, worlds))
    except (RelevanceError, SettingsError) as error:
        return str(error)


async def _by_store(settings: Settings, profile: EmbedderProfile, requester: _Requester) -> Measured:
    """Fit only the search thresholds; the relevance model needs labels."""
    async with open_client(settings) as backend:
        observed = await _on_store(backend, requester)
    before = Thresholds.of(profile, KEYWORD_THRESHOLD)
    measure = partial(from_off_topic, now=before)
    after = measure(observed)
    effects = effect_of(before, observed), unseen_effect(observed, measure)
    return Measured(profile, ThresholdComparison(len(observed), before, after, *effects), NEEDS_LABELS)


def _keep(settings: Settings, measured: Measured) -> Written:
    """Write the fits, except one of the relevance model that does not help."""
    search, fit = measured.search, measured.relevance_model
    thresholds = None if isinstance(search, str) else search.after
    return Written(
        write_calibration(settings.service.home, measured.profile, thresholds) if thresholds else None,
        None if isinstance(fit, str) else kept(settings, read_relevance_model(), fit),
    )


async def _on_store(backend: OperationClient, requester: _Requester) -> list[Observation]:
    """Search the store for unrelated tasks."""
    observed: list[Observation] = []
    who = {"scope": {"tenant": requester.tenant, "user": requester.user}, "agent_id": requester.agent}
    with progress_bar() as progress:
        for task in progress.track(off_topic_tasks(), description="measuring"):
            payload = {"query": task, **who, "limit": SEARCH_LIMIT, "ungated": True}
            body = await backend.call(RECALL, payload, budget=BUDGET_S)
            _check_visible(len(body["memories"]), body["size"])
            observed.append(_observation(body, frozenset()))
    return observed


def _check_visible(visible: int, size: int) -> None:
    """Raise `SettingsError` if too few memories are visible. A search without thresholds finds all, up to its limit."""
    if visible < LEAST_MEMORIES:
        raise SettingsError(
            f"only {visible} of {size} memories are visible; calibration needs {LEAST_MEMORIES}."
            " Use --user and --agent to include the memories of a user or agent"
        )


async def _on_worlds(settings: Settings, worlds: Sequence[LabelledWorld]) -> list[Observation]:
    """Search labelled worlds for their tasks."""
    observed: list[Observation] = []
    async with worlds_service(settings) as backend:
        with progress_bar() as progress:
            for world in progress.track(worlds, description="measuring"):
                await store_world(backend, world)
                for task in world.tasks:
                    observed += await _search(backend, task)
    return observed


async def _search(backend: OperationClient, task: LabelledTask) -> list[Observation]:
    """Run the search of a task; return nothing if the task needs no search."""
    payload = recall_of(task, SEARCH_LIMIT, ungated=True)
    if payload is None:
        return []
    return [_observation(await backend.call(RECALL, payload, budget=BUDGET_S), task.relevant)]


def _observation(body: dict[str, Any], relevant: frozenset[str]) -> Observation:
    unit = body["keyword_unit"]
    return [
        ObservedCandidate(hit["cosine"] or 0.0, (hit["keyword"] or 0.0) / unit, hit["relevance"], hit["id"] in relevant)
        for hit in body["memories"]
    ]


def _fields(measured: Measured, written: Written) -> dict[str, Any]:
    search, fit = measured.search, measured.relevance_model
    fields = {
        "search": {"refused": search} if isinstance(search, str) else _search_fields(search, written.search),
        "relevance_model": {"refused": fit} if isinstance(fit, str) else fit_fields(fit, written.relevance_model),
    }
    return {"embedder": measured.profile.name, "fingerprint": measured.profile.fingerprint, **fields}


def _search_fields(search: ThresholdComparison, path: Path | None) -> dict[str, Any]:
    return {
        "tasks": search.tasks,
        "before": asdict(search.before) | {"effect": asdict(search.effect_before)},
        "after": asdict(search.after) | {"effect": asdict(search.effect_after)},
        "written": str(path) if path else None,
    }


def _show(measured: Measured, written: Written) -> None:
    search, fit = measured.search, measured.relevance_model
    if isinstance(search, str):
        say(f"search thresholds: {search}")
    else:
        _show_search(search, measured.profile.name)
        say(f"search thresholds: {written_text(written.search)}")
    if isinstance(fit, str):
        say(f"relevance model: {fit}")
    else:
        show_fit(fit, written.relevance_model)


def _show_search(search: ThresholdComparison, embedder: str) -> None:
    before, after = asdict(search.before), asdict(search.after)
    rows = [[name, f"{before[name]:.3f}", f"{after[name]:.3f}"] for name in before]
    before, after = asdict(search.effect_before), asdict(search.effect_after)
    rows += [
        [words, f"{before[name]:.1%}", f"{after[name]:.1%}"]
        for name, words in WORDS.items()
        if before[name] is not None
    ]
    title = f"search thresholds: {embedder}, {search.tasks} tasks; shares on held-out tasks"
    show(table(title, ["", "before", "after"], rows))
