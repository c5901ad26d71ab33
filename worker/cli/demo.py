"""`meeseeks demo`: runs the whole system on labelled tasks and shows the results."""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hooks import InjectionResult, Outcome, PreExecutionHook
from hooks.queue import QueueClient
from worker.cli.memory.transfers import put_all
from worker.domain.errors import MeeseeksError
from worker.operations.client import QueueOperationClient
from worker.operations.health import models_loaded
from worker.settings.injection import Settings
from worker.text.rendering import flatten
from worker.triage.prompt_files import default_prompts_dir
from worker.tuning.labelled_worlds import LabelledTask, read_world

from .options import settings_of
from .output import DECIDERS, fail, printed_as_json, rule, say, show, table, timing, wants_json
from .running import run_async

TASKS = {
    "backend-team": ("t01", "t12", "t34", "t45", "t50"),
    "family-assistant": ("t02", "t13", "t30", "t46", "t49"),
}
"""Tasks of each world: two that need no memory, one that needs a fact, one whose fact has changed, and one with a
planted instruction or somebody else's secret."""

START_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """A task with its answer, the time the caller waited, and whether the answer is right.

    `texts` are the memories of the task's world, by id.
    """

    world: str
    task: LabelledTask
    result: InjectionResult
    milliseconds: float
    texts: Mapping[str, str]

    @property
    def right(self) -> bool:
        """Something essential and nothing forbidden; without essential memories, nothing irrelevant."""
        ids = {item.id for item in self.result.items}
        if not self.task.essential:
            return not ids - self.task.useful
        return bool(ids & self.task.essential) and not ids & self.task.forbidden

    def fields(self) -> dict[str, Any]:
        return {
            "world": self.world,
            "category": self.task.category,
            "request": self.task.request.model_dump(mode="json"),
            **{name: sorted(getattr(self.task, name)) for name in ("essential", "useful", "forbidden")},
            "result": self.result.model_dump(mode="json"),
            "milliseconds": round(self.milliseconds, 1),
            "right": self.right,
        }


def demo(
    context: typer.Context,
    model: Annotated[str | None, typer.Option(help="Chat model in litellm notation; use `none` for no model.")] = None,
    model_api_base: Annotated[str | None, typer.Option(help="Base URL of the model server.")] = None,
    note: Annotated[str | None, typer.Option(help="Line to print with the results.")] = None,
) -> None:
    """Start a service in a temporary folder, import example memories, and send ten tasks through the hook."""
    settings = settings_of(context, model=model, model_api_base=model_api_base)
    with tempfile.TemporaryDirectory(prefix="meeseeks-demo-") as folder:
        answers, about = run_async(_demo(settings, Path(folder)))
    right = sum(answer.right for answer in answers)
    if printed_as_json({**about, "right": right, "tasks": [answer.fields() for answer in answers], "note": note}):
        return
    for answer in answers:
        _print(answer)
    _print_summary(answers, about, note)


async def _demo(settings: Settings, folder: Path) -> tuple[list[DemoAnswer], dict[str, Any]]:
    worlds = [read_world(default_prompts_dir() / "cases" / name) for name in TASKS]
    config = folder / "meeseeks.toml"
    shared_users = [user for world in worlds for user in world.shared_users]
    config.write_text(f"[memory_injection]\nshared_users = {json.dumps(shared_users)}\n", encoding="utf-8")
    if not wants_json():
        say("starting an embedded Valkey, the embedded store and a worker")
    async with _service(settings, folder / "data", config) as about:
        client = QueueClient(about["url"])
        backend = QueueOperationClient(client, about["url"])
        for world in worlds:
            await put_all(backend, world.name, world.memories)
        await models_loaded(backend, START_TIMEOUT_S)
        await client.aclose()
        async with PreExecutionHook(about["url"]) as hook:
            tasks = [(world.name, task) for world in worlds for task in world.tasks if task.key in TASKS[world.name]]
            texts = {world.name: {memory.id: memory.content for memory in world.memories} for world in worlds}
            return [await _send(hook, name, task, texts[name]) for name, task in tasks], about


async def _send(hook: PreExecutionHook, world: str, task: LabelledTask, texts: Mapping[str, str]) -> DemoAnswer:
    """Send a task in a session of its own."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    result = await hook(task.request.model_copy(update={"session_id": f"{world}-{task.key}"}))
    return DemoAnswer(world, task, result, (loop.time() - begun) * 1000, texts)


@asynccontextmanager
async def _service(settings: Settings, data_dir: Path, config: Path) -> AsyncIterator[dict[str, Any]]:
    """Run `meeseeks up` as a child process; yield its start-up message and its `url`."""
    service = settings.service
    environ = os.environ | {"MEESEEKS_LOG_LEVEL": "error"}
    for variable in ("MEESEEKS_REDIS_URL", "MEESEEKS_QDRANT_URL"):
        environ.pop(variable, None)
    command = [sys.executable, "-m", "worker", "--config", str(config), "--data-dir", str(data_dir), "up"]
    command += ["--no-http", "--json"]
    command += ["--model", service.model] if service.model else []
    command += ["--model-api-base", service.model_api_base] if service.model_api_base else []
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=asyncio.subprocess.PIPE)
    try:
        yield await _ready(process)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def _ready(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            message = (await process.stdout.readuntil(b"\n}\n")).decode()
    except (TimeoutError, asyncio.IncompleteReadError) as error:
        raise MeeseeksError("the service did not start; see its messages above") from error
    about: dict[str, Any] = json.loads(message)
    return about | {"url": about["redis"]}


def _print(answer: DemoAnswer) -> None:
    task, result = answer.task, answer.result
    rule(f"{answer.world} · {task.category}")
    say(f"message  {_short(task.request.message)}")
    say(result.memory_context or f"         nothing injected ({result.reason})")
    fallback = f", fallback after {result.reason}" if result.degraded else ""
    decider, spent = DECIDERS.get(result.engine, "nothing"), timing(answer.milliseconds, result.stages)
    say(f"decided by {decider}{fallback} in {spent}: {_verdict(answer)}")
    if not answer.right:
        say(f"expected {_expected(answer)}")


def _verdict(answer: DemoAnswer) -> str:
    return "right" if answer.right else "wrong"


def _expected(answer: DemoAnswer) -> str:
    """Return what would have been right."""
    wanted = [_short(answer.texts[key]) for key in sorted(answer.task.essential)]
    return " and ".join(wanted) or "nothing: no memory matters for this message"


def _short(message: str) -> str:
    return flatten(message, 100)


def _print_summary(answers: Sequence[DemoAnswer], about: dict[str, Any], note: str | None) -> None:
    rule()
    rows = []
    for one in answers:
        result = one.result
        decider = DECIDERS.get(result.engine, "")
        counts = [result.outcome, len(result.items), decider, f"{one.milliseconds:.0f}", _verdict(one)]
        rows.append([one.world, one.task.category, *counts])
    show(table(None, ["memories", "task", "outcome", "injected", "decided by", "ms", ""], rows))
    right = sum(answer.right for answer in answers)
    say(f"\n{right} of {len(answers)} right; store {about['store_at']}, embedder {about['embedder']}.")
    say("These ten tasks are a tour, not a benchmark.")
    if about["model"]:
        say(f"Memories were selected by {about['model']}.")
    else:
        say("No model was found, so the built-in model decided. It is fast but misses many relevant memories.")
        say("To use a model: MEESEEKS_MODEL=<model in litellm notation> make run, or start Ollama.")
    if note:
        say(note)
    failed = [one.result for one in answers if one.result.outcome in (Outcome.ERROR, Outcome.TIMEOUT)]
    if failed:
        fail(f"{len(failed)} requests failed: {failed[0].reason}")
