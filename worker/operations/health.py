"""The handler that reports the state of the service."""

from collections.abc import Callable, Iterable
from typing import Any

from worker.domain.deadline import Deadline
from worker.domain.model_profile import ModelState
from worker.domain.operation import AnyHandler
from worker.ports.store import StoreEngine
from worker.settings.live import LiveSettings

from .registry import HEALTH
from .requests import NoRequest
from .results import HealthResult


def health_handler(
    engine: StoreEngine, models: Callable[[], Iterable[ModelState]], settings: LiveSettings, about: dict[str, Any]
) -> AnyHandler:
    async def health(request: NoRequest, deadline: Deadline) -> HealthResult:
        return HealthResult(store=await engine.health(), models=list(models()), settings=settings.status(), **about)

    return HEALTH.bind(health)
