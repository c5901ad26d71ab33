"""The handler that reports the state of the service."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from worker.domain.cue_progress import CueProgress
from worker.domain.deadline import Deadline
from worker.domain.errors import QueueError
from worker.domain.model_profile import ModelState
from worker.domain.operation import AnyHandler
from worker.ports.store import StoreEngine
from worker.settings.live import LiveSettings

from .registry import HEALTH
from .requests import NoRequest
from .results import HealthResult


def health_handler(
    engine: StoreEngine,
    models: Callable[[], Iterable[ModelState]],
    settings: LiveSettings,
    about: dict[str, Any],
    cues: Callable[[], Awaitable[CueProgress]] | None = None,
) -> AnyHandler:
    """Return the handler; `cues` reads the progress of writing cues, `None` if the service writes none."""

    async def health(request: NoRequest, deadline: Deadline) -> HealthResult:
        progress = None
        with suppress(QueueError):  # the other parts are healthy without it
            progress = await cues() if cues is not None else None
        store = await engine.health()
        return HealthResult(store=store, models=list(models()), settings=settings.status(), cues=progress, **about)

    return HEALTH.bind(health)
