"""Waiting for the models of a service, which are ready later than it is."""

import time
from typing import Any

import pytest

from worker.domain.operation import AnyOperation
from worker.operations import health
from worker.operations.health import models_loaded
from worker.operations.registry import HEALTH


class Loading:
    """A service whose model is ready after `looks` looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    async def call(self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = 10.0) -> dict[str, Any]:
        assert (operation, payload) == (HEALTH, {})
        self.looks -= 1
        return {"models": [{"name": "m", "loading": self.looks >= 0}, {"name": "n", "loading": False}]}


async def test_it_looks_until_every_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LOOK_S", 0.0)
    service = Loading(3)
    await models_loaded(service, within=30.0)
    assert service.looks == -1


async def test_it_does_not_wait_longer_than_it_may() -> None:
    begun = time.monotonic()
    await models_loaded(Loading(1_000_000), within=0.05)
    assert time.monotonic() - begun < 5.0
