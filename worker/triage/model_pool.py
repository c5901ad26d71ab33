"""The models that settings name, each opened once, with the breaker that pauses it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import structlog

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError, ModelError
from worker.domain.model_profile import ModelKind, ModelProfile, kind_of
from worker.settings.injection import InjectionConfig
from worker.settings.selection import Strategy
from worker.settings.service import ServiceSettings

from .breaker import CircuitBreaker

log = structlog.get_logger()

OPENING_S = 0.5
"""Seconds that a request waits for a model to be opened: the first of all takes longer, further ones do not."""


class AnyModel(Protocol):
    """What all kinds of models have in common."""

    @property
    def name(self) -> str: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


M = TypeVar("M", bound=AnyModel)


@dataclass(frozen=True, slots=True)
class ModelState:
    """How an open model is: failures in a row, the reason of the last of them, and whether it is left alone for them,
    for so many seconds more.

    `paused_s` is `None` where it is asked as usual, and 0 where the next request tries it again.
    """

    name: str
    failures: int
    last: str | None
    paused_s: float | None


@dataclass(frozen=True, slots=True)
class Opened(Generic[M]):
    """A model that can be asked, and the breaker of its failures."""

    model: M
    profile: ModelProfile
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)


class ModelPool(Generic[M]):
    """Opens models by name when they are first needed. `load` blocks for as long as an SDK takes to import."""

    def __init__(self, load: Callable[[ModelProfile], M], profile: Callable[[str], ModelProfile]) -> None:
        self._load = load
        self._profile = profile
        self._opened: dict[str, asyncio.Task[Opened[M]]] = {}
        self._warming: set[asyncio.Task[None]] = set()

    def open(self, name: str) -> "asyncio.Task[Opened[M]]":
        """Begin to open a model, unless that has been done; it is warmed up afterwards."""
        known = self._opened.get(name)
        if known is None or _failed(known):
            known = asyncio.create_task(self._open(name), name=f"open-model-{name}")
            self._opened[name] = known
        return known

    async def get(self, name: str, deadline: Deadline) -> Opened[M]:
        """The open model. Raises `ModelError` where it cannot be opened, or not in time."""
        opening = self.open(name)
        try:
            async with asyncio.timeout(deadline.within(OPENING_S).remaining()):
                return await asyncio.shield(opening)
        except TimeoutError:
            raise ModelError(Reason.MODEL_NO_TIME, f"{name}: still being opened") from None
        except MeeseeksError as error:
            raise ModelError(Reason.MODEL_ERROR, f"{name}: cannot be opened: {error}") from error

    def states(self, now: float) -> list[ModelState]:
        """Of every open model; `now` is in the seconds that breakers are told."""
        opened = [(name, task.result().breaker) for name, task in self._opened.items() if _is_open(task)]
        return [ModelState(name, one.failures, one.last, one.paused_for(now)) for name, one in opened]

    async def warmed(self) -> None:
        """Wait until the models that are open are warm, or have failed to be."""
        while self._warming:
            await asyncio.wait(self._warming)

    async def aclose(self) -> None:
        for task in (*self._warming, *self._opened.values()):
            task.cancel()
        opened = await asyncio.gather(*self._opened.values(), return_exceptions=True)
        await asyncio.gather(*self._warming, return_exceptions=True)
        for each in opened:
            if isinstance(each, Opened):
                await each.model.aclose()
        self._opened.clear()

    async def _open(self, name: str) -> Opened[M]:
        profile = self._profile(name)
        opened = Opened(await asyncio.to_thread(self._load, profile), profile)
        warming = asyncio.create_task(opened.model.warm(), name=f"warm-model-{name}")
        self._warming.add(warming)
        warming.add_done_callback(self._warming.discard)
        return opened


def _is_open(task: "asyncio.Task[Opened[M]]") -> bool:
    return task.done() and not _failed(task)


def _failed(task: "asyncio.Task[Opened[M]]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


_KINDS = {Strategy.LLM: ModelKind.CHAT, Strategy.DECISION: ModelKind.DECISION}


class ModelNames:
    """Which models a request may use, in order; `usual` is the one for requests whose settings name none."""

    def __init__(self, service: ServiceSettings, usual: str | None) -> None:
        self._service = service
        self.usual = usual

    def of(self, config: InjectionConfig) -> tuple[str, ...]:
        """All that are named, or those of the kind that the strategy asks for; where none is known to be of it, those
        of which the settings do not say what they are."""
        named = tuple(dict.fromkeys(config.models)) or ((self.usual,) if self.usual else ())
        wanted = _KINDS.get(config.strategy)
        if wanted is None:
            return named
        fitting = tuple(name for name in named if kind_of(self._service.profile(name)) is wanted)
        return fitting or tuple(name for name in named if self._service.profile(name).kind is None)

    def kind(self, name: str, config: InjectionConfig) -> ModelKind:
        """As what a request asks a model: as its strategy says, else as what it is known to be."""
        return _KINDS.get(config.strategy) or kind_of(self._service.profile(name))

    def strategy(self, config: InjectionConfig) -> Strategy | None:
        """The strategy that fits the first model; `None` without one."""
        first = next(iter(self.of(config)), None)
        if first is None:
            return None
        return Strategy.DECISION if self.kind(first, config) is ModelKind.DECISION else Strategy.LLM
