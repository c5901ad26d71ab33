"""The parts of the service and how they are: worker, queue, store, embedder, models and settings. Pure."""

from collections.abc import Iterator

from pydantic import BaseModel

from hooks.queue import UNREACHABLE
from worker.domain.errors import MeeseeksError
from worker.domain.model_profile import ModelState
from worker.operations.client import QueueState
from worker.operations.results import HealthResult

from .request_words import MARKS, Mark, fault_words
from .words import counted

MODEL = "Model"
DEGRADED = "/requests?degraded=yes"
"""The list of requests that were answered without a part."""


class Part(BaseModel):
    """A part and its state; `command` or the page at `link` shows more, or mends it."""

    name: str
    mark: Mark
    command: str | None = None
    link: str | None = None


def parts_of(health: HealthResult | MeeseeksError, queue: QueueState | None, *, counts: bool) -> list[Part]:
    """Return all parts, in the order of what depends on what; an error is why no worker answered.

    Without `counts`, nothing is told of how much is kept and waits, which concerns all tenants.
    """
    parts = [_worker(health), _queue(queue, counts=counts)]
    if isinstance(health, HealthResult):
        parts += [_store(health, counts=counts), *_embedder(health), *_models(health), *_settings(health)]
    return parts


def _part(name: str, kind: str, words: str, command: str | None = None, link: str | None = None) -> Part:
    return Part(name=name, mark=Mark(kind=kind, shape=MARKS[kind], words=words), command=command, link=link)


def _worker(health: HealthResult | MeeseeksError) -> Part:
    if isinstance(health, HealthResult):
        return _part("Worker", "good", f"answers, process {health.pid}")
    return _part("Worker", "bad", str(health), "meeseeks doctor")


def _queue(queue: QueueState | None, *, counts: bool) -> Part:
    if queue is None:
        return _part("Queue", "bad", UNREACHABLE, "meeseeks doctor")
    waiting = counted(queue.waiting, "request waits", "requests wait")
    words = f": {waiting}" if counts else ""
    if not queue.alive:
        return _part("Queue", "bad", f"no worker takes requests from it{words}", "meeseeks start")
    return _part("Queue", "good", f"a worker takes requests from it{words}")


def _store(health: HealthResult, *, counts: bool) -> Part:
    store = health.store
    if store.fault:
        return _part("Store", "bad", store.fault, "meeseeks store info")
    size = [counted(store.points, "memory", "memories")] if counts else []
    bare = [f"{counted(store.bare, 'memory has', 'memories have')} no vector yet"] if counts and store.bare else []
    notes = [*bare, *store.notes]
    words = "; ".join([store.engine, *size, *notes])
    return _part("Store", "warn", words, "meeseeks store info") if notes else _part("Store", "good", words)


def _embedder(health: HealthResult) -> Iterator[Part]:
    yield _part("Embedder", "good" if health.embedder else "none", health.embedder or "none: keyword search only")


def _models(health: HealthResult) -> Iterator[Part]:
    if not health.models:
        yield _part(MODEL, "good" if health.model else "none", health.model or f"none: {health.decides} decides")
    for state in health.models:
        yield _model(state)


def _model(state: ModelState) -> Part:
    if state.loading:
        return _part(MODEL, "warn", f"{state.name} is still loading; requests are answered without it")
    if not state.failures:
        return _part(MODEL, "good", state.name)
    why = f": {fault_words(state.last)}" if state.last else ""
    words = f"{state.name} failed {counted(state.failures, 'time', 'times')} in a row{why}"
    if state.paused_s is None:
        return _part(MODEL, "warn", words, "meeseeks doctor", DEGRADED)
    again = f"in {state.paused_s:.0f} s" if state.paused_s > 0 else "with the next request"
    return _part(MODEL, "bad", f"{words}; it is tried again {again}", "meeseeks doctor", DEGRADED)


def _settings(health: HealthResult) -> Iterator[Part]:
    """Yield what is wrong with the settings, if anything is."""
    faults = [f"{source} not in force: {fault}" for source, fault in health.settings.get("faults", {}).items()]
    restart = health.settings.get("needs_restart", [])
    if faults:
        yield _part("Settings", "bad", "; ".join(faults), "meeseeks doctor", "/settings")
    elif restart:
        yield _part("Settings", "warn", f"need a restart: {', '.join(restart)}", "meeseeks restart", "/settings")
