"""`meeseeks demo`: the whole way on real parts, on labelled tasks, so that anyone can see what happens."""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from hooks import InjectionRequest, InjectionResult, Outcome, PreExecutionHook
from hooks.queue import QueueClient
from worker.cli.memory.transfers import put_all
from worker.domain.errors import MeeseeksError
from worker.domain.memory import Memory
from worker.settings.injection import Settings
from worker.transfer import read_lines
from worker.triage.prompt_files import default_prompts_dir

from .backend import QueueOperationClient
from .options import AsJson, run, settings_of
from .output import console, fail, milliseconds, print_json, say, table

TASKS = {
    "backend-team": ("t01", "t12", "t34", "t45", "t50"),
    "family-assistant": ("t02", "t13", "t30", "t46", "t49"),
}
"""Tasks that are shown from each world: two that need no memory, one that needs a fact, one whose fact has changed,
and one with a planted instruction or a secret of somebody else."""

READY_WITHIN = 120.0


@dataclass(frozen=True, slots=True)
class DemoTask:
    """One labelled task of a world; see `prompts/cases/README.md` for the labels."""

    world: str
    category: str
    request: InjectionRequest
    essential: frozenset[str]
    useful: frozenset[str]
    forbidden: frozenset[str]

    def is_right(self, result: InjectionResult) -> bool:
        """Nothing where nothing is relevant; else something essential, and never anything forbidden."""
        ids = {item.id for item in result.items}
        if not self.essential:
            return not ids - self.useful
        return bool(ids & self.essential) and not ids & self.forbidden


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """A task with its answer and the caller's own measure of the time."""

    task: DemoTask
    result: InjectionResult
    milliseconds: float


def demo(
    context: typer.Context,
    model: Annotated[str | None, typer.Option(help="Chat model in litellm's notation; `none` does without.")] = None,
    model_api_base: Annotated[str | None, typer.Option(help="Base address of the model server.")] = None,
    note: Annotated[str | None, typer.Option(help="A line to print with the results.")] = None,
    as_json: AsJson = False,
) -> None:
    """Start the stack in a folder of its own, import two labelled worlds, and send tasks through the real hook."""
    settings = settings_of(context, as_json=as_json, model=model, model_api_base=model_api_base)
    with tempfile.TemporaryDirectory(prefix="meeseeks-demo-") as folder:
        shown, about = run(_demo(settings, Path(folder), as_json), as_json=as_json)
    right = sum(entry.task.is_right(entry.result) for entry in shown)
    if as_json:
        print_json({**about, "right": right, "tasks": [_as_json(entry) for entry in shown], "note": note})
        return
    for entry in shown:
        _print(entry)
    _print_summary(shown, about, right, note)


async def _demo(settings: Settings, folder: Path, as_json: bool) -> tuple[list[DemoAnswer], dict[str, Any]]:
    worlds = [default_prompts_dir() / "cases" / name for name in TASKS]
    config = folder / "meeseeks.toml"
    config.write_text(f"[memory_injection]\nshared_users = {json.dumps(_shared_users(worlds))}\n", encoding="utf-8")
    if not as_json:
        say("starting: an embedded Valkey, the embedded store and a worker, in a process of their own")
    async with _service(settings, folder / "data", config) as about:
        client = QueueClient(about["url"])
        backend = QueueOperationClient(client, about["url"])
        for world in worlds:
            await put_all(backend, _tenant(world.name), _memories(world), show_progress=not as_json)
        await client.aclose()
        async with PreExecutionHook(about["url"]) as hook:
            shown = [await _send(hook, task) for task in _tasks(worlds)]
    return shown, about


def _tenant(world: str) -> str:
    return f"demo-{world}"


def _shared_users(worlds: Sequence[Path]) -> list[str]:
    return [user for world in worlds for user in json.loads((world / "world.json").read_text())["shared_users"]]


def _memories(world: Path) -> list[Memory]:
    with (world / "memories.jsonl").open(encoding="utf-8") as lines:
        return [entry for _, entry in read_lines(lines, datetime.now(UTC)) if isinstance(entry, Memory)]


def _tasks(worlds: Sequence[Path]) -> list[DemoTask]:
    picked: list[DemoTask] = []
    for world in worlds:
        tasks = [json.loads(line) for line in (world / "tasks.jsonl").read_text(encoding="utf-8").splitlines()]
        by_id = {raw["id"]: raw for raw in tasks}
        picked.extend(_task(world.name, by_id[task_id]) for task_id in TASKS[world.name])
    return picked


def _task(world: str, raw: dict[str, Any]) -> DemoTask:
    request = InjectionRequest.model_validate(
        {
            "session_id": f"{world}-{raw['id']}",
            "agent_id": raw["scope"]["agent"],
            "message": raw["message"],
            "task_description": raw["task_description"],
            "recent_messages": raw["recent_turns"],
            "source": raw["source"],
            "scope": {**raw["scope"], "tenant": _tenant(world)},
            "now": raw["now"],
        }
    )
    labels = (frozenset(raw[name]) for name in ("essential", "useful", "forbidden"))
    return DemoTask(world, raw["category"], request, *labels)


async def _send(hook: PreExecutionHook, task: DemoTask) -> DemoAnswer:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    result = await hook(task.request)
    return DemoAnswer(task, result, (loop.time() - begun) * 1000)


@asynccontextmanager
async def _service(settings: Settings, data_dir: Path, config: Path) -> AsyncIterator[dict[str, Any]]:
    """`meeseeks up` in a process of its own; what it says of itself once it is ready, and its `url`."""
    service = settings.service
    environ = os.environ | {"MEESEEKS_LOG_LEVEL": "error"}
    for elsewhere in ("MEESEEKS_REDIS_URL", "MEESEEKS_QDRANT_URL"):
        environ.pop(elsewhere, None)
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
        async with asyncio.timeout(READY_WITHIN):
            said = (await process.stdout.readuntil(b"\n}\n")).decode()
    except (TimeoutError, asyncio.IncompleteReadError) as error:
        raise MeeseeksError("the service did not start; its messages are above") from error
    about: dict[str, Any] = json.loads(said)
    return about | {"url": about["redis"]}


def _print(entry: DemoAnswer) -> None:
    task, result = entry.task, entry.result
    verdict = "right" if task.is_right(result) else "wrong"
    console.rule(f"{task.world} · {task.category}", align="left", style="dim")
    say(f"message  {_short(task.request.message)}")
    say(result.memory_context or f"         nothing injected ({result.reason})")
    by = f"{result.engine}{', degraded: ' + str(result.reason) if result.degraded else ''}"
    say(f"decided by {by}; {entry.milliseconds:.0f} ms at the caller: {milliseconds(result.stages)}; {verdict}")


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 100 else line[:99] + "…"


def _print_summary(shown: Sequence[DemoAnswer], about: dict[str, Any], right: int, note: str | None) -> None:
    console.rule(style="dim")
    rows = [
        [
            entry.task.world,
            entry.task.category,
            entry.result.outcome,
            len(entry.result.items),
            entry.result.engine,
            f"{entry.milliseconds:.0f}",
            "right" if entry.task.is_right(entry.result) else "wrong",
        ]
        for entry in shown
    ]
    console.print(table(None, ["world", "task", "outcome", "items", "engine", "ms", ""], rows))
    say(f"\n{right} of {len(shown)} right; store {about['store_at']}, embedder {about['embedder']}.")
    say("The tasks were picked to show every kind of answer; they measure nothing.")
    if about["model"]:
        say(f"Triage by {about['model']}.")
    else:
        say("No model was found, so the relevance model that ships decided: it is fast, and misses more than it finds.")
        say("For triage by a model: MEESEEKS_MODEL=<model in litellm's notation> make run, or start an Ollama.")
    if note:
        say(note)
    failed = [entry for entry in shown if entry.result.outcome in (Outcome.ERROR, Outcome.TIMEOUT)]
    if failed:
        fail(f"{len(failed)} requests failed: {failed[0].result.reason}", as_json=False)


def _as_json(entry: DemoAnswer) -> dict[str, Any]:
    task = {**asdict(entry.task), "request": entry.task.request.model_dump(mode="json")}
    labels = {name: sorted(task.pop(name)) for name in ("essential", "useful", "forbidden")}
    return {
        **task,
        **labels,
        "result": entry.result.model_dump(mode="json"),
        "milliseconds": round(entry.milliseconds, 1),
        "right": entry.task.is_right(entry.result),
    }
