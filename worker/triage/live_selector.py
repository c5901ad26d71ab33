"""Select with the prompts and models currently in force; both may change while the service runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic

import structlog

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError, PromptError
from worker.domain.memory import Recalled, RecallTool, Selection, SelectionTask
from worker.domain.model_calls import ModelAttempt, ModelExchange
from worker.domain.model_profile import USUAL_CONTEXT, USUAL_QUESTIONS, ModelKind
from worker.ports.models import ChatModel, DecisionModel, Selector
from worker.settings.injection import InjectionConfig
from worker.text.rendering import shown_text

from .chat_prompt import check_prompt
from .chat_selector import LlmSelector
from .decision_scale import DecisionScale
from .decision_selector import DecisionLimits, DecisionSelector, check_decision_prompt
from .model_pool import ModelPool
from .prompt_files import Prompt, default_prompts_dir, load_prompts

_log = structlog.get_logger()

TRIAGE_PROMPT = "triage"
DECISION_PROMPT = "decision"
TRIAGE_TEXT_CHARS = 40_000

SHARE = 0.6
"""Share of the remaining time for a model if another one can be tried after it."""

MIN_NEXT_S = 0.4
"""Minimum remaining seconds to try the next model."""


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts in use; `others` are further prompts of the folder that triage can use, by id.

    `warned` are unknown prompts whose absence has been logged.
    """

    triage: Prompt
    decision: Prompt
    others: Mapping[str, Prompt] = field(default_factory=dict)
    warned: set[str] = field(default_factory=set, compare=False)

    def with_prompt(self, prompt: Prompt | None) -> "PromptSet":
        """Return a copy in which `prompt` replaces the one with its id."""
        if prompt is None:
            return self
        if prompt.id == TRIAGE_PROMPT:
            return replace(self, triage=prompt)
        if prompt.id == DECISION_PROMPT:
            return replace(self, decision=prompt)
        return replace(self, others={**self.others, prompt.id: prompt})

    def triage_for(self, config: InjectionConfig) -> Prompt:
        """Return the prompt that the settings name, or the default one if it does not exist."""
        if config.prompt == self.triage.id:
            return self.triage
        found = self.others.get(config.prompt)
        if found is None and config.prompt not in self.warned:
            self.warned.add(config.prompt)
            _log.warning("prompt_unknown", prompt=config.prompt, used=self.triage.id)
        return found or self.triage


class LivePrompts:
    """The prompts of a folder, replaced together when all are valid. Raise `PromptError` if they are invalid at first.

    `report` receives the error of a changed folder, or `None` once it is valid. The shipped decision prompt is the
    default.
    """

    def __init__(self, directory: Path, report: Callable[[str | None], None] = lambda _: None) -> None:
        self._directory = directory
        self._report = report
        self._prompts = _load(directory)

    @property
    def triage(self) -> Prompt:
        return self._prompts.triage

    @property
    def decision(self) -> Prompt:
        return self._prompts.decision

    def triage_for(self, config: InjectionConfig) -> Prompt:
        """See `PromptSet.triage_for`."""
        return self._prompts.triage_for(config)

    def with_prompt(self, prompt: Prompt | None) -> PromptSet:
        """Return a copy that no longer changes; see `PromptSet.with_prompt`."""
        return self._prompts.with_prompt(prompt)

    async def reload(self) -> None:
        """Read the folder again; if it is invalid, keep the old prompts and report the error."""
        try:
            self._prompts = await asyncio.to_thread(_load, self._directory)
        except PromptError as error:
            self._report(str(error))
        else:
            self._report(None)


def _load(directory: Path) -> PromptSet:
    prompts = load_prompts(directory)
    if TRIAGE_PROMPT not in prompts:
        raise PromptError(f"{directory}: no prompt has the id {TRIAGE_PROMPT!r}")
    decision = prompts.get(DECISION_PROMPT) or load_prompts(default_prompts_dir())[DECISION_PROMPT]
    check_prompt(prompts[TRIAGE_PROMPT])
    check_decision_prompt(decision)
    others = {key: prompt for key, prompt in prompts.items() if key != TRIAGE_PROMPT and _is_for_triage(prompt)}
    return PromptSet(prompts[TRIAGE_PROMPT], decision, others)


def _is_for_triage(prompt: Prompt) -> bool:
    try:
        check_prompt(prompt)
    except PromptError:
        return False
    return True


Ask = Callable[[str, InjectionConfig, Deadline], Awaitable[Selector]]
"""Return the selector of a model. Raise `ModelError` if it cannot be opened in time."""


class LiveSelector:
    """Try the models of a request in order until one succeeds; a `worker.ports.models.Selector`.

    `names` returns a request's models, `clock` monotonic seconds. If all fail, `select` raises the first meaningful
    `ModelError` with all attempts.
    """

    def __init__(
        self,
        names: Callable[[InjectionConfig], tuple[str, ...]],
        ask: Ask,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._names = names
        self._ask = ask
        self._clock = clock

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection:
        names, failures = self._names(config), list[tuple[ModelError, ModelAttempt]]()
        for place, name in enumerate(names):
            last = place == len(names) - 1
            limit = deadline if last else deadline.share(SHARE)
            started = self._clock()
            try:
                selector = await self._ask(name, config, limit)
                selection = await selector.select(task, recalled, recall, config, limit)
            except ModelError as error:
                failures.append((error, ModelAttempt(name, error.reason, self._spent(started))))
                if deadline.remaining() < MIN_NEXT_S:
                    break
            else:
                attempt = ModelAttempt(name, None, self._spent(started))
                return replace(
                    selection,
                    attempts=(*(failed for _, failed in failures), attempt),
                    exchanges=(*_exchanges([error for error, _ in failures]), *selection.exchanges),
                )
        raise _combined(failures)

    def _spent(self, started: float) -> float:
        return round((self._clock() - started) * 1000.0, 3)


def _combined(failures: list[tuple[ModelError, ModelAttempt]]) -> ModelError:
    """Return the first failure other than a lack of time, with every attempt."""
    attempts = tuple(attempt for _, attempt in failures)
    errors = [error for error, _ in failures] or [ModelError(Reason.MODEL_NO_TIME, "no model is configured")]
    first = next((error for error in errors if error.reason is not Reason.MODEL_NO_TIME), errors[0])
    return ModelError(first.reason, str(first), attempts, _exchanges(errors))


def _exchanges(errors: Sequence[ModelError]) -> tuple[ModelExchange, ...]:
    return tuple(exchange for error in errors for exchange in error.exchanges)


def presenter(config: InjectionConfig) -> Callable[[str], str]:
    """Return the function that prepares texts for a model under these settings."""
    return partial(shown_text, limit=TRIAGE_TEXT_CHARS, mask=config.mask_secrets)


def ask_by_kind(kind: Callable[[str, InjectionConfig], ModelKind], ways: Mapping[ModelKind, Ask]) -> Ask:
    """Dispatch on the kind of a model."""

    async def ask(name: str, config: InjectionConfig, deadline: Deadline) -> Selector:
        return await ways[kind(name, config)](name, config, deadline)

    return ask


def ask_chat(
    pool: "ModelPool[ChatModel]", prompt: Callable[[InjectionConfig], Prompt], usual_window: int = USUAL_CONTEXT
) -> Ask:
    """Return the `Ask` for chat models."""

    async def ask(name: str, config: InjectionConfig, deadline: Deadline) -> Selector:
        opened = await pool.get(name, deadline)
        window = opened.profile.context or usual_window
        return LlmSelector(opened.model, prompt(config), opened.breaker, present=presenter(config), window=window)

    return ask


def ask_decision(
    pool: "ModelPool[DecisionModel]", prompt: Callable[[], Prompt], scales: Mapping[str, DecisionScale]
) -> Ask:
    """Return the `Ask` for decision models, with their fitted scales; a threshold in the settings takes precedence."""

    async def ask(name: str, config: InjectionConfig, deadline: Deadline) -> Selector:
        opened = await pool.get(name, deadline)
        profile, scale = opened.profile, scales.get(name, DecisionScale())
        if profile.threshold is not None:
            scale = replace(scale, threshold=profile.threshold)
        limits = DecisionLimits(scale, profile.questions or USUAL_QUESTIONS, bool(profile.may_only_veto))
        return DecisionSelector(opened.model, prompt(), opened.breaker, present=presenter(config), limits=limits)

    return ask
