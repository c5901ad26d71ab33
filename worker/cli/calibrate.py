"""`meeseeks calibrate`: measures from where on memories count as relevant."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from worker.calibration import (
    LEAST_MEMORIES,
    Effect,
    Observation,
    Seen,
    Thresholds,
    effect_of,
    from_labelled,
    from_off_topic,
    off_topic_tasks,
    read_calibration,
    write_calibration,
)
from worker.cli.backend import Backend, open_backend
from worker.cli.labelled import BUDGET_S, recall_of, store_world, worlds_service
from worker.cli.options import AsJson, Tenant, run, settings_of
from worker.cli.output import errors, print_json, say, show, table
from worker.errors import SettingsError
from worker.models import EmbedderProfile
from worker.opening import make_embedder
from worker.operations import RECALL
from worker.ranking import KEYWORD_FLOOR
from worker.settings import Settings
from worker.worlds import Task, World, read_worlds

MOST_SEEN = 60
WORDS = {
    "passing": "tasks with relevant memories that get candidates",
    "kept": "relevant memories among the candidates",
    "stopped": "tasks without relevant memories that get no candidates",
    "clean": "tasks without relevant memories that get nothing without a model",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Thresholds before and after, and what each set does on what was observed."""

    profile: EmbedderProfile
    tasks: int
    before: Thresholds
    after: Thresholds
    effect_before: Effect
    effect_after: Effect


def calibrate(
    context: typer.Context,
    worlds: Annotated[
        Path | None, typer.Option(help="Folder of labelled worlds to measure on.", exists=True, file_okay=False)
    ] = None,
    store: Annotated[
        bool, typer.Option("--store", help="Measure on the memories that are stored, with tasks about nothing in them.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Keep what was measured; services take it when they start.")
    ] = False,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Measure from where on memories count as relevant to a message, for the embedder that is configured."""
    settings = settings_of(context, as_json=as_json)

    async def work() -> Measured:
        if store == (worlds is not None):
            raise SettingsError("say what to measure on: --store or --worlds DIR")
        profile = _profile(settings)
        if worlds is not None:
            return _measured(profile, await _on_worlds(settings, read_worlds(worlds), quiet=as_json), labelled=True)
        return _measured(profile, await _on_store(settings, tenant, quiet=as_json), labelled=False)

    measured = run(work(), as_json=as_json)
    file = write_calibration(settings.service.home, measured.profile, measured.after) if write else None
    _print(measured, file, as_json=as_json)


def _profile(settings: Settings) -> EmbedderProfile:
    """That of the configured embedder, as the service would take it now."""
    embedder = make_embedder(settings.service)
    if embedder is None:
        raise SettingsError("there is nothing to measure without an embedder: service.embedder is none")
    return read_calibration(settings.service.home, embedder.profile)


def _measured(profile: EmbedderProfile, observed: Sequence[Observation], *, labelled: bool) -> Measured:
    before = Thresholds.of(profile, KEYWORD_FLOOR)
    after = from_labelled(observed) if labelled else from_off_topic(observed, before)
    return Measured(profile, len(observed), before, after, effect_of(before, observed), effect_of(after, observed))


async def _on_store(settings: Settings, tenant: str, *, quiet: bool) -> list[Observation]:
    """What is found in the store for tasks about nothing in it."""
    observed: list[Observation] = []
    tasks = off_topic_tasks()
    async with open_backend(settings) as backend:
        with Progress(console=errors, disable=quiet, transient=True) as progress:
            for task in progress.track(tasks, description="measuring"):
                payload = {"query": task, "scope": {"tenant": tenant}, "limit": MOST_SEEN, "ungated": True}
                body = await backend.call(RECALL, payload, budget=BUDGET_S)
                if body["size"] < LEAST_MEMORIES:
                    raise SettingsError(f"{body['size']} memories are too few to measure on; it takes {LEAST_MEMORIES}")
                observed.append(_seen(body, frozenset()))
    return observed


async def _on_worlds(settings: Settings, worlds: Sequence[World], *, quiet: bool) -> list[Observation]:
    """What is found for the tasks of labelled worlds."""
    observed: list[Observation] = []
    async with worlds_service(settings) as backend:
        with Progress(console=errors, disable=quiet, transient=True) as progress:
            for world in progress.track(worlds, description="measuring"):
                await store_world(backend, world)
                for task in world.tasks:
                    observed += await _ask(backend, task)
    return observed


async def _ask(backend: Backend, task: Task) -> list[Observation]:
    """What a task's own recall finds; nothing where it would not be searched with at all."""
    payload = recall_of(task, MOST_SEEN, ungated=True)
    return [] if payload is None else [_seen(await backend.call(RECALL, payload, budget=BUDGET_S), task.relevant)]


def _seen(body: dict[str, Any], relevant: frozenset[str]) -> Observation:
    unit = body["keyword_unit"]
    return [
        Seen(hit["cosine"] or 0.0, (hit["keyword"] or 0.0) / unit, hit["relevance"], hit["id"] in relevant)
        for hit in body["memories"]
    ]


def _print(measured: Measured, file: Path | None, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "embedder": measured.profile.name,
                "fingerprint": measured.profile.fingerprint,
                "tasks": measured.tasks,
                "before": asdict(measured.before) | {"effect": asdict(measured.effect_before)},
                "after": asdict(measured.after) | {"effect": asdict(measured.effect_after)},
                "written": str(file) if file else None,
            }
        )
        return
    before, after = asdict(measured.before), asdict(measured.after)
    rows = [[name, f"{before[name]:.3f}", f"{after[name]:.3f}"] for name in before]
    before, after = asdict(measured.effect_before), asdict(measured.effect_after)
    rows += [
        [words, f"{before[name]:.1%}", f"{after[name]:.1%}"]
        for name, words in WORDS.items()
        if before[name] is not None
    ]
    show(table(f"{measured.profile.name}, {measured.tasks} tasks", ["", "before", "after"], rows))
    say(f"written to {file}; services take it when they start" if file else "nothing written; --write keeps it")
