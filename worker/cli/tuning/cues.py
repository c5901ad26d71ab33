"""`meeseeks eval cues`: measures what the cues of a model bring on labelled tasks."""

import tempfile
from contextlib import AsyncExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from worker.adapters.models.relevance_file import RelevanceProcess, read_relevance_model
from worker.bootstrap.opening import open_cue_writer
from worker.cli.local import quiet_settings_of
from worker.cli.output import note, printed_as_json, say, show, table, wants_json
from worker.cli.progress import progress_bar
from worker.cli.running import run_async
from worker.domain.errors import SettingsError
from worker.operations.bulk import batches
from worker.operations.enrichment import EnrichmentLimits, EnrichmentReport, Price
from worker.settings.injection import Settings
from worker.triage.cue_writer import MEMORIES_PER_CALL, CueWriter
from worker.triage.prompt_files import default_prompts_dir
from worker.tuning.cue_effect import CueEffect, CueWriting, effect_of
from worker.tuning.evals.plan import CASES
from worker.tuning.labelled_worlds import LabelledWorld
from worker.tuning.relevance_fit import Scored
from worker.tuning.relevance_measures import ChoiceEffect
from worker.tuning.world_store import WorldStore, open_world_store

from .evaluate import ApiBase, Cases, MaxCost, Model, World, Worlds, places
from .relevance_common import effect_rows, worlds_of


def eval_cues(
    context: typer.Context,
    model: Model = None,
    model_api_base: ApiBase = None,
    worlds: Worlds = None,
    cases: Cases = None,
    world: World = None,
    max_cost: MaxCost = None,
) -> None:
    """Let a model write cues for labelled memories, and measure what they bring.

    It works on a temporary store, and shows tokens and money before it starts.
    """
    settings = quiet_settings_of(context)
    if model_api_base is not None:
        service = settings.service.model_copy(update={"model_api_base": model_api_base})
        settings = Settings(service, settings.memory_injection)
    every = worlds_of(places(worlds, cases) or default_prompts_dir() / CASES)
    found = [one for one in every if not world or one.name in world]
    if not found:
        raise SettingsError(f"no labelled world is called {' or '.join(world or ())}")
    done, effect = run_async(_run(settings, found, model, max_cost))
    if not printed_as_json({**done, "effect": asdict(effect)}):
        _show(done, effect)
    if done["stopped"]:
        raise typer.Exit(1)


async def _run(
    settings: Settings, worlds: list[LabelledWorld], model: str | None, max_cost: float | None
) -> tuple[dict[str, Any], CueEffect]:
    async with AsyncExitStack() as stack:
        writer, price = await open_cue_writer(settings.service, model, stack)
        if max_cost is not None and price is None:
            raise SettingsError(f"the price of {writer.model} is unknown, so --max-cost cannot be kept; use --world")
        _announce(writer, price, worlds)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meeseeks-cues-")))
        store = await stack.enter_async_context(open_world_store(folder))
        relevance_model = stack.enter_context(closing(RelevanceProcess(read_relevance_model())))
        report = EnrichmentReport(cost=None if price is None else 0.0)
        writing = CueWriting(store, folder, writer, price, EnrichmentLimits(max_cost=max_cost), report)
        before = await _scored(store, relevance_model, worlds)
        memories = sum(len(world.memories) for world in worlds)
        with progress_bar() as progress:
            bar = progress.add_task("writing cues", total=memories)
            for world in worlds:
                await writing.written(world, lambda number: progress.advance(bar, number))
        after = await _scored(store, relevance_model, worlds)
        most = settings.memory_injection.max_items
        done = {"model": writer.model, "prompt": writer.prompt_id, "worlds": [world.name for world in worlds]}
        return {**done, **asdict(writing.report)}, effect_of(before, after, memories, most)


async def _scored(store: WorldStore, relevance_model: RelevanceProcess, worlds: list[LabelledWorld]) -> list[Scored]:
    found: list[Scored] = []
    with progress_bar() as progress:
        bar = progress.add_task("measuring", total=sum(len(world.tasks) for world in worlds))
        for world in worlds:
            for case in await store.cases(world, lambda: progress.advance(bar)):
                scores = await relevance_model.scores(case.inputs) if case.inputs else None
                found.append(Scored(case, scores))
    return found


def _announce(writer: CueWriter, price: Price | None, worlds: list[LabelledWorld]) -> None:
    """Show what the model will take at most."""
    sizes = [writer.estimate(batch) for world in worlds for batch in batches(world.memories, MEMORIES_PER_CALL)]
    read, written = sum(one for one, _ in sizes), sum(one for _, one in sizes)
    cost = "at an unknown price" if price is None else f"about ${price.of(read, written):.4f}"
    if not wants_json():
        note(f"{len(sizes)} calls of {writer.model}: about {read + written:,} tokens, {cost}")


def _show(done: dict[str, Any], effect: CueEffect) -> None:
    say(f"{done['prompt']}, {done['model']}, on {', '.join(done['worlds'])}: {effect.tasks} tasks")
    say(f"{done['enriched']} of {effect.memories} memories got {done['cues']} cues in {done['calls']} calls\n")
    columns: dict[str, ChoiceEffect] = {}
    for rater, before in effect.before.items():
        columns |= {f"{rater}, no cues": before, f"{rater}, cues": effect.after[rater]}
    names, rows = effect_rows(columns)
    show(table(f"with the threshold that keeps {effect.clean:.0%} of the turns clean", ["", *names], rows))
    if done["stopped"]:
        say(f"STOPPED: {done['stopped']}; the other memories have no cues")
