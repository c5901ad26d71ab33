"""`meeseeks eval calibrate-decision`: fits probability scale and threshold of a decision model to labelled tasks."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.bootstrap.opening import make_decision_model
from worker.cli.local import quiet_settings_of
from worker.cli.output import printed_as_json, say, show, table
from worker.cli.progress import progress_bar
from worker.cli.running import run_async
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError, SettingsError
from worker.domain.memory import Candidate, SelectionTask
from worker.domain.model_profile import USUAL_QUESTIONS
from worker.operations.client import OperationClient
from worker.operations.registry import RECALL
from worker.ports.models import DecisionModel
from worker.settings.injection import InjectionConfig, Settings
from worker.triage.decision_scale import DecisionScale, read_scales, write_scale
from worker.triage.decision_selector import all_answers, questions_about
from worker.triage.live_selector import LivePrompts, presenter
from worker.triage.prompt_files import Prompt, default_prompts_dir
from worker.tuning.decision_scale_fit import Answered, ScaleEffect, effect_of, fitted
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld, read_worlds

from .labelled_service import BUDGET_S, recall_of, store_world, worlds_service
from .relevance_common import cell, written_text

SEED = 20260301
PARALLEL = 4
MAX_FAILED = 0.1
"""Share of tasks that may fail."""

WORDS = {
    "precision": "precision of the kept memories",
    "recall": "relevant memories kept",
    "clean": "tasks without relevant memories that keep none",
    "log_loss": "log loss, in nats per answer",
}


@dataclass(frozen=True, slots=True)
class Question:
    """A task with its candidates and labels."""

    key: str
    task: SelectionTask
    candidates: tuple[Candidate, ...]
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True)
class ScaleFit:
    """A scale before and after, with the effect of each on the answers."""

    model: str
    tasks: int
    failed: int
    answers: int
    before: DecisionScale
    after: DecisionScale
    effect_before: ScaleEffect
    effect_after: ScaleEffect


def calibrate_decision(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Decision model in litellm notation, such as ollama/tev1:0.8b.")],
    worlds: Annotated[Path, typer.Option(help="Folder of labelled worlds.", exists=True, file_okay=False)],
    tasks: Annotated[int, typer.Option(min=1, help="Number of tasks to draw at random.")] = 400,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time limit of one task in seconds.")] = 60.0,
    write: Annotated[bool, typer.Option("--write", help="Save the fit; restart services to use it.")] = False,
) -> None:
    """Calibrate a decision model's probabilities and threshold on labelled tasks."""
    settings = quiet_settings_of(context)

    async def work() -> ScaleFit:
        before = read_scales(settings.service.home).get(model, DecisionScale())
        questions = await _questions(settings, read_worlds(worlds), tasks)
        decides = await asyncio.to_thread(make_decision_model, settings.service, model)
        try:
            answers = await _answers(settings, decides, questions, seconds)
        finally:
            await decides.aclose()
        asked = {answer.task for answer in answers}
        after = fitted(answers)
        failed = len(questions) - len(asked)
        effects = effect_of(before, answers), effect_of(after, answers)
        return ScaleFit(model, len(asked), failed, len(answers), before, after, *effects)

    fit = run_async(work())
    file = write_scale(settings.service.home, model, fit.after) if write else None
    _print(fit, file)


async def _questions(settings: Settings, worlds: Sequence[LabelledWorld], most: int) -> list[Question]:
    """Draw at most `most` tasks with a fixed seed, and search for each."""
    every = [(world, task) for world in worlds for task in world.tasks]
    drawn = random.Random(SEED).sample(every, min(most, len(every)))
    found: list[Question] = []
    async with worlds_service(settings) as backend:
        with progress_bar() as progress:
            for world in {world.name: world for world, _ in drawn}.values():
                await store_world(backend, world)
            for world, task in progress.track(drawn, description="searching"):
                found += await _question(backend, world, task)
    return found


async def _question(backend: OperationClient, world: LabelledWorld, task: LabelledTask) -> list[Question]:
    """Search for one task; return nothing if it needs no search or nothing is found."""
    config, request = InjectionConfig(), task.request
    payload = recall_of(task, config.triage_candidates, ungated=False)
    hits = [] if payload is None else (await backend.call(RECALL, payload, budget=BUDGET_S))["memories"]
    if payload is None or not hits:
        return []
    memories = {memory.id: memory for memory in world.memories}
    candidates = tuple(
        Candidate(memories[hit["id"]], hit["cosine"], hit["keyword"], hit["relevance"], hit["score"]) for hit in hits
    )
    about = SelectionTask(
        message=request.message,
        task_description=request.task_description,
        recent_messages=request.recent_messages,
        query=payload["query"],
        now=request.now or datetime.now(UTC),
    )
    return [Question(f"{world.name}/{task.key}", about, candidates, task.relevant)]


async def _answers(
    settings: Settings, model: DecisionModel, questions: Sequence[Question], seconds: float
) -> list[Answered]:
    """Ask all questions and label the answers. Raise `ModelError` if too many fail."""
    prompt = LivePrompts(settings.service.prompts_dir or default_prompts_dir()).decision
    most = settings.service.profile(model.name).questions or USUAL_QUESTIONS
    slots, failures = asyncio.Semaphore(PARALLEL), list[ModelError]()
    with progress_bar() as progress:
        bar = progress.add_task("asking", total=len(questions))

        async def ask(question: Question) -> list[Answered]:
            async with slots:
                if len(failures) > MAX_FAILED * len(questions):
                    return []
                try:
                    return await _answers_to(model, prompt, question, seconds, most)
                except ModelError as error:
                    failures.append(error)
                    return []
                finally:
                    progress.advance(bar)

        found = await asyncio.gather(*map(ask, questions))
    _check(failures, len(questions))
    return [answer for answers in found for answer in answers]


def _check(failures: Sequence[ModelError], asked: int) -> None:
    if not asked:
        raise SettingsError("no task of these worlds finds a memory")
    if len(failures) > MAX_FAILED * asked:
        raise ModelError(failures[0].reason, f"{len(failures)} of {asked} tasks failed; first error: {failures[0]}")


async def _answers_to(
    model: DecisionModel, prompt: Prompt, question: Question, seconds: float, most: int
) -> list[Answered]:
    present: Callable[[str], str] = presenter(InjectionConfig())
    request = questions_about(question.task, question.candidates, prompt, present)
    replies = await all_answers(model, request, Deadline.after(seconds), most)
    raw = [probability for reply in replies for probability in reply.probabilities]
    return [
        Answered(question.key, value, candidate.memory.id in question.relevant)
        for candidate, value in zip(question.candidates, raw, strict=True)
    ]


def _print(fit: ScaleFit, file: Path | None) -> None:
    before: dict[str, Any] = asdict(fit.before) | {"effect": asdict(fit.effect_before)}
    after: dict[str, Any] = asdict(fit.after) | {"effect": asdict(fit.effect_after)}
    about = {"model": fit.model, "tasks": fit.tasks, "failed": fit.failed, "answers": fit.answers}
    if printed_as_json({**about, "before": before, "after": after, "written": str(file) if file else None}):
        return
    rows = [[name, f"{before[name]:.3f}", f"{after[name]:.3f}"] for name in ("slope", "intercept", "threshold")]
    rows += [[words, cell(before["effect"][name]), cell(after["effect"][name])] for name, words in WORDS.items()]
    title = f"{fit.model}, {fit.tasks} tasks, {fit.answers} answers, {fit.failed} tasks failed"
    show(table(title, ["", "before", "after"], rows))
    say(written_text(file))
