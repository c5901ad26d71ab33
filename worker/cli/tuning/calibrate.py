"""`meeseeks calibrate`: adjusts to a store, or to labelled tasks, from where on memories count as relevant."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from worker.adapters.models.relevance_file import read_relevance_model
from worker.bootstrap.opening import make_embedder
from worker.cli.backend import OperationClient, open_client
from worker.cli.options import Agent, AsJson, Tenant, User, run, settings_of
from worker.cli.output import errors, print_json, say, show, table
from worker.domain.errors import RelevanceError, SettingsError
from worker.domain.memory import EmbedderProfile
from worker.operations.requests import RECALL
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
from .relevance_common import fit_fields, fitted, kept, scored_tasks, show_fit, worlds_of

MOST_SEEN = 60
NEEDS_LABELS = "adjusting it takes labelled tasks: --cases"

WORDS = {
    "passing": "tasks with relevant memories that get candidates",
    "kept": "relevant memories among the candidates",
    "stopped": "tasks without relevant memories that get no candidates",
    "clean": "tasks without relevant memories that get nothing without a model",
}


@dataclass(frozen=True, slots=True)
class ThresholdComparison:
    """Thresholds before and after, and what each set does on tasks that it was not taken from."""

    tasks: int
    before: Thresholds
    after: Thresholds
    effect_before: ThresholdEffect
    effect_after: ThresholdEffect


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured for an embedder: the search thresholds and the relevance model, or why they were not."""

    profile: EmbedderProfile
    search: ThresholdComparison | str
    relevance_model: RelevanceFit | str


@dataclass(frozen=True, slots=True)
class _Asker:
    """Who looks at the store: what belongs to others is not seen."""

    tenant: str
    user: str | None
    agent: str


@dataclass(frozen=True, slots=True)
class Written:
    """The files that hold what was measured, where it was kept."""

    search: Path | None = None
    relevance_model: Path | None = None


def calibrate(
    context: typer.Context,
    cases: Annotated[
        Path | None,
        typer.Option(
            "--worlds",
            "--cases",
            help="Labelled tasks to adjust to: a file of JSON Lines, or a folder of labelled worlds.",
            exists=True,
        ),
    ] = None,
    store: Annotated[
        bool, typer.Option("--store", help="Measure on the memories that are stored, with tasks about nothing in them.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Keep what was measured; services take it when they start.")
    ] = False,
    tenant: Tenant = "default",
    user: User = None,
    agent: Agent = "main",
    as_json: AsJson = False,
) -> None:
    """Adjust the gate of the search and the relevance model to labelled tasks, or the gate alone to what is stored."""
    settings = settings_of(context, as_json=as_json)

    async def work() -> Measured:
        if store == (cases is not None):
            raise SettingsError("say what to adjust to: --store, or your labelled tasks with --cases")
        profile = _profile(settings)
        if cases is not None:
            return await _by_labels(settings, profile, worlds_of(cases), quiet=as_json)
        return await _by_store(settings, profile, _Asker(tenant, user, agent), quiet=as_json)

    measured = run(work(), as_json=as_json)
    written = _keep(settings, measured) if write else Written()
    _print_fields(measured, written) if as_json else _show(measured, written)


def _profile(settings: Settings) -> EmbedderProfile:
    """That of the configured embedder, as the service would take it now."""
    embedder = make_embedder(settings.service)
    if embedder is None:
        raise SettingsError("there is nothing to measure without an embedder: service.embedder is none")
    return read_calibration(settings.service.home, embedder.profile)


async def _by_labels(
    settings: Settings, profile: EmbedderProfile, worlds: Sequence[LabelledWorld], *, quiet: bool
) -> Measured:
    """Gate and judge, the model behind the gate that was measured. Raises `SettingsError` where neither can be."""
    observed = await _on_worlds(settings, worlds, quiet=quiet)
    before = Thresholds.of(profile, KEYWORD_THRESHOLD)
    search: ThresholdComparison | str
    try:
        after = from_labelled(observed)
        search = ThresholdComparison(
            len(observed), before, after, effect_of(before, observed), labelled_effect(observed)
        )
    except SettingsError as error:
        search = str(error)
    behind = search.after.applied(profile) if isinstance(search, ThresholdComparison) else profile
    relevance_model = await _fitted(settings, behind, worlds, quiet=quiet)
    if isinstance(search, str) and isinstance(relevance_model, str):
        raise SettingsError(f"nothing can be adjusted. gate: {search}. judge: {relevance_model}")
    return Measured(profile, search, relevance_model)


async def _fitted(
    settings: Settings, profile: EmbedderProfile, worlds: Sequence[LabelledWorld], *, quiet: bool
) -> RelevanceFit | str:
    """The relevance model fitted to the labels, or why it is not."""
    try:
        file = read_relevance_model()
        if file.relevance_model.fingerprint != profile.fingerprint:
            return f"it is off: it is made for {file.card['embedder']['name']}, the embedder is {profile.name}"
        return fitted(settings, file, await scored_tasks(file, worlds, profile, quiet=quiet))
    except (RelevanceError, SettingsError) as error:
        return str(error)


async def _by_store(settings: Settings, profile: EmbedderProfile, asker: _Asker, *, quiet: bool) -> Measured:
    """Measure the search thresholds; the relevance model needs labels."""
    async with open_client(settings) as backend:
        observed = await _on_store(backend, asker, quiet=quiet)
    before = Thresholds.of(profile, KEYWORD_THRESHOLD)
    measure = partial(from_off_topic, now=before)
    after = measure(observed)
    search = ThresholdComparison(
        len(observed), before, after, effect_of(before, observed), unseen_effect(observed, measure)
    )
    return Measured(profile, search, NEEDS_LABELS)


def _keep(settings: Settings, measured: Measured) -> Written:
    """Write what was measured; a fit of the relevance model that does not help stays out."""
    search = measured.search
    file = (
        write_calibration(settings.service.home, measured.profile, search.after)
        if isinstance(search, ThresholdComparison)
        else None
    )
    return Written(
        file,
        kept(settings, read_relevance_model(), measured.relevance_model)
        if isinstance(measured.relevance_model, RelevanceFit)
        else None,
    )


async def _on_store(backend: OperationClient, asker: _Asker, *, quiet: bool) -> list[Observation]:
    """What is found in the store for tasks about nothing in it."""
    observed: list[Observation] = []
    scope = {"tenant": asker.tenant, "user": asker.user}
    with Progress(console=errors, disable=quiet, transient=True) as progress:
        for task in progress.track(off_topic_tasks(), description="measuring"):
            payload = {"query": task, "scope": scope, "agent_id": asker.agent, "limit": MOST_SEEN, "ungated": True}
            body = await backend.call(RECALL, payload, budget=BUDGET_S)
            _check_visible(len(body["memories"]), body["size"])
            observed.append(_seen(body, frozenset()))
    return observed


def _check_visible(visible: int, size: int) -> None:
    """Raises `SettingsError` where too few memories can be seen; an ungated search brings all, up to its limit."""
    if visible < LEAST_MEMORIES:
        raise SettingsError(
            f"{visible} memories that can be seen, of {size}, are too few to measure on; it takes {LEAST_MEMORIES}."
            " What belongs to a user or an agent is seen with --user and --agent"
        )


async def _on_worlds(settings: Settings, worlds: Sequence[LabelledWorld], *, quiet: bool) -> list[Observation]:
    """What is found for the tasks of labelled worlds."""
    observed: list[Observation] = []
    async with worlds_service(settings) as backend:
        with Progress(console=errors, disable=quiet, transient=True) as progress:
            for world in progress.track(worlds, description="measuring"):
                await store_world(backend, world)
                for task in world.tasks:
                    observed += await _ask(backend, task)
    return observed


async def _ask(backend: OperationClient, task: LabelledTask) -> list[Observation]:
    """What a task's own recall finds; nothing where it would not be searched with at all."""
    payload = recall_of(task, MOST_SEEN, ungated=True)
    return [] if payload is None else [_seen(await backend.call(RECALL, payload, budget=BUDGET_S), task.relevant)]


def _seen(body: dict[str, Any], relevant: frozenset[str]) -> Observation:
    unit = body["keyword_unit"]
    return [
        ObservedCandidate(hit["cosine"] or 0.0, (hit["keyword"] or 0.0) / unit, hit["relevance"], hit["id"] in relevant)
        for hit in body["memories"]
    ]


def _print_fields(measured: Measured, written: Written) -> None:
    search, relevance_model = measured.search, measured.relevance_model
    print_json(
        {
            "embedder": measured.profile.name,
            "fingerprint": measured.profile.fingerprint,
            "search": {"refused": search} if isinstance(search, str) else _search_fields(search, written.search),
            "relevance_model": {"refused": relevance_model}
            if isinstance(relevance_model, str)
            else fit_fields(relevance_model, written.relevance_model),
        }
    )


def _search_fields(search: ThresholdComparison, path: Path | None) -> dict[str, Any]:
    return {
        "tasks": search.tasks,
        "before": asdict(search.before) | {"effect": asdict(search.effect_before)},
        "after": asdict(search.after) | {"effect": asdict(search.effect_after)},
        "written": str(path) if path else None,
    }


def _show(measured: Measured, written: Written) -> None:
    search, relevance_model = measured.search, measured.relevance_model
    if isinstance(search, ThresholdComparison):
        _show_search(search, measured.profile.name)
        say(_told("search", written.search))
    else:
        say(f"gate: {search}")
    if isinstance(relevance_model, RelevanceFit):
        show_fit(relevance_model, written.relevance_model)
    else:
        say(f"relevance model: {relevance_model}")


def _show_search(search: ThresholdComparison, embedder: str) -> None:
    before, after = asdict(search.before), asdict(search.after)
    rows = [[name, f"{before[name]:.3f}", f"{after[name]:.3f}"] for name in before]
    before, after = asdict(search.effect_before), asdict(search.effect_after)
    rows += [
        [words, f"{before[name]:.1%}", f"{after[name]:.1%}"]
        for name, words in WORDS.items()
        if before[name] is not None
    ]
    show(table(f"gate: {embedder}, {search.tasks} tasks; shares on tasks left out", ["", "before", "after"], rows))


def _told(part: str, path: Path | None) -> str:
    if path:
        return f"{part}: written to {path}; services take it when they start"
    return f"{part}: nothing written; --write keeps it"
