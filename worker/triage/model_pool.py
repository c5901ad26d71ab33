"""Open each configured model once, with its own circuit breaker."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Generic, Protocol, TypeVar

import structlog

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError, ModelError
from worker.domain.model_profile import ModelKind, ModelProfile, ModelState, kind_of
from worker.settings.injection import InjectionConfig
from worker.settings.selection import Strategy
from worker.settings.service import ServiceSettings

from .breaker import CircuitBreaker

log = structlog.get_logger()

OPENING_S = 0.5
"""Maximum seconds that a request waits for a model to open."""

NOT_OPENED = (ImportError, ValueError, TypeError, AttributeError, LookupError, RuntimeError, OSError)
"""What a model's SDK may raise while it is imported and a client is made."""


class AnyModel(Protocol):
    """The common interface of models."""

    @property
    def name(self) -> str: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


M = TypeVar("M", bound=AnyModel)


@dataclass(frozen=True, slots=True)
class Opened(Generic[M]):
    """An open model with its circuit breaker."""

    model: M
    profile: ModelProfile
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)


class ModelPool(Generic[M]):
    """Open models by name when they are first needed. `load` may block while an SDK is imported.

    A model that could not be opened is tried again once per pause; `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        load: Callable[[ModelProfile], M],
        profile: Callable[[str], ModelProfile],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._load = load
        self._profile = profile
        self._clock = clock
        self._refused: defaultdict[str, CircuitBreaker] = defaultdict(lambda: CircuitBreaker(threshold=1))
        self._opened: dict[str, asyncio.Task[Opened[M]]] = {}
        self._warming: dict[asyncio.Task[None], str] = {}

    def open(self, name: str) -> "asyncio.Task[Opened[M]]":
        """Start to open and warm up a model, unless it is open already."""
        known = self._opened.get(name)
        if known is None or (_failed(known) and self._refused[name].allow(self._clock())):
            known = asyncio.create_task(self._open(name), name=f"open-model-{name}")
            known.add_done_callback(partial(self._note_opening, name))
            self._opened[name] = known
        return known

    async def get(self, name: str, deadline: Deadline) -> Opened[M]:
        """Return the open model. Raise `ModelError` if it cannot be opened in time."""
        opening = self.open(name)
        try:
            async with asyncio.timeout(deadline.within(OPENING_S).remaining()):
                return await asyncio.shield(opening)
        except TimeoutError:
            raise ModelError(Reason.MODEL_NO_TIME, f"{name}: still opening") from None
        except (MeeseeksError, *NOT_OPENED) as error:
            raise ModelError(Reason.MODEL_ERROR, f"{name}: cannot be opened: {_told(error)}") from error

    def states(self, now: float) -> list[ModelState]:
        """Return the state of every model that is open or opening; `now` is in monotonic seconds."""
        opening = [
            ModelState(name, 0, None, None, loading=True) for name, task in self._opened.items() if not task.done()
        ]
        opened = [(name, task.result().breaker) for name, task in self._opened.items() if _is_open(task)]
        warming = set(self._warming.values())
        return opening + [
            ModelState(name, one.failures, one.last, one.paused_for(now), loading=name in warming)
            for name, one in opened
        ]

    async def warmed(self) -> None:
        """Wait until the open models have finished warming up, successfully or not."""
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
        self._warming[warming] = name
        warming.add_done_callback(self._warming.pop)
        return opened

    def _note_opening(self, name: str, opening: "asyncio.Task[Opened[M]]") -> None:
        if opening.cancelled():
            return
        error = opening.exception()
        if error is None:
            log.info("model_opened", model=name)
            self._refused.pop(name, None)
            return
        self._refused[name].record_failure(self._clock(), reason=Reason.MODEL_ERROR)
        paused = self._refused[name].paused_for(self._clock())
        log.warning("model_not_opened", model=name, error=type(error).__name__, next_try_s=round(paused or 0.0, 1))


def _told(error: Exception) -> str:
    """Return the message of our own error; a library's may show what is private, so only its kind."""
    return str(error) if isinstance(error, MeeseeksError) else type(error).__name__


def _is_open(task: "asyncio.Task[Opened[M]]") -> bool:
    return task.done() and not _failed(task)


def _failed(task: "asyncio.Task[Opened[M]]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


_KINDS = {Strategy.LLM: ModelKind.CHAT, Strategy.DECISION: ModelKind.DECISION}


class ModelNames:
    """The models that a request may use, in order; `usual` is the default model."""

    def __init__(self, service: ServiceSettings, usual: str | None) -> None:
        self._service = service
        self.usual = usual

    def of(self, config: InjectionConfig) -> tuple[str, ...]:
        """Return the configured models of the strategy's kind, or else those whose kind is not configured."""
        named = tuple(dict.fromkeys(config.models)) or ((self.usual,) if self.usual else ())
        wanted = _KINDS.get(config.strategy)
        if wanted is None:
            return named
        fitting = tuple(name for name in named if kind_of(self._service.profile(name)) is wanted)
        return fitting or tuple(name for name in named if self._service.profile(name).kind is None)

    def kind(self, name: str, config: InjectionConfig) -> ModelKind:
        """Return the kind that the strategy implies, or else the model's own."""
        return _KINDS.get(config.strategy) or kind_of(self._service.profile(name))

    def strategy(self, config: InjectionConfig) -> Strategy | None:
        """Return the strategy that fits the first model, or `None` without a model."""
        first = self.first(config)
        return first[1] if first else None

    def first(self, config: InjectionConfig) -> tuple[str, Strategy] | None:
        """Return the first model and the strategy that fits it, or `None` without a model."""
        name = next(iter(self.of(config)), None)
        if name is None:
            return None
        return name, Strategy.DECISION if self.kind(name, config) is ModelKind.DECISION else Strategy.LLM
