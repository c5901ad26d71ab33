"""The handler that reports the state of the service."""

import asyncio
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

from .client import OperationClient
from .registry import HEALTH
from .requests import NoRequest
from .results import HealthResult

LOOK_S = 0.1
"""Seconds between two looks whether models are loaded."""


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
    decides: Callable[[], str],
    progress: Progress,
) -> AnyHandler:
    """Return the handler; `decides` says what chooses memories under the settings for all agents."""

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
            decides=decides(),
            **about,
        )

    return HEALTH.bind(health)


async def models_loaded(client: OperationClient, within: float) -> None:
    """Wait until the models of a service are ready, which they are later than the service; at most `within` seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            loading = True
            while loading:
                health = await client.call(HEALTH, {})
                loading = any(model["loading"] for model in health["models"])
                await asyncio.sleep(LOOK_S)
