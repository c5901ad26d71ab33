"""The models of a service, and when they are opened."""

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Any

from worker.domain.model_profile import ModelKind, ModelProfile, ModelState, kind_of
from worker.ports.models import ChatModel, DecisionModel
from worker.triage.model_pool import ModelNames, ModelPool


@dataclass(frozen=True, slots=True)
class ConfiguredModels:
    """The models that requests may use, opened when they are first needed."""

    names: ModelNames
    chat: "ModelPool[ChatModel]"
    decision: "ModelPool[DecisionModel]"
    configured: tuple[ModelProfile, ...] = ()

    def open(self, profile: ModelProfile) -> "asyncio.Task[Any]":
        """Start to open a model; the task raises `SettingsError` if it cannot be opened."""
        decides = kind_of(profile) is ModelKind.DECISION
        return self.decision.open(profile.name) if decides else self.chat.open(profile.name)

    def open_all(self) -> "list[asyncio.Task[Any]]":
        """Start to open every configured model. Until one is open, requests do without it."""
        return [self.open(profile) for profile in self.configured]

    async def opened(self) -> None:
        """Open every configured model; they keep warming up. Raise `SettingsError` if one cannot be opened."""
        for opening in self.open_all():
            await opening

    def states(self) -> list[ModelState]:
        """Return the state of every open model."""
        now = monotonic()
        return [*self.chat.states(now), *self.decision.states(now)]

    async def warm(self) -> None:
        """Wait until every open model has finished warming up, so that measurements exclude it."""
        await self.chat.warmed()
        await self.decision.warmed()
