"""The handler that reports the state of the service."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from worker.domain.capture import CaptureProgress
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


@dataclass(frozen=True, slots=True)
class Progress:
    """Read how far writing cues and reading conversations have come; `None` for what the service does not do."""

    cues: Callable[[], Awaitable[CueProgress]] | None = None
    captures: Callable[[], Awaitable[CaptureProgress]] | None = None


def health_handler(
    engine: StoreEngine,
    models: Callable[[], Iterable[ModelState]],
    settings: LiveSettings,
    about: dict[str, Any],
    progress: Progress,
) -> AnyHandler:
    """Return the handler."""

    async def health(request: NoRequest, deadline: Deadline) -> HealthResult:
        cues = captures = None
        with suppress(QueueError):  # the other parts are healthy without it
            cues = await progress.cues() if progress.cues is not None else None
            captures = await progress.captures() if progress.captures is not None else None
        return HealthResult(
            store=await engine.health(),
            models=list(models()),
            settings=settings.status(),
            cues=cues,
            captures=captures,
            **about,
        )

    return HEALTH.bind(health)
