"""Triage with the prompts and the models in force: both may change while the service runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

import structlog

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError, PromptError
from worker.domain.memory import Recalled, RecallTool, Selection, SelectionTask
from worker.domain.model_calls import ModelAttempt
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
TRIAGE_TEXT_CHARS = 4000

SHARE = 0.6
"""Share of the time left that a model may take while another one waits for its turn."""

MIN_NEXT_S = 0.4
"""Seconds that must be left for the next model to be asked."""


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts that triage uses; `others` are those of the folder that triage could use as well, by id."""

    triage: Prompt
    decision: Prompt
    others: Mapping[str, Prompt] = field(default_factory=dict)

    def with_prompt(self, prompt: Prompt | None) -> "PromptSet":
        """The same with `prompt` in the place of the one by its id."""
        if prompt is None:
            return self
        if prompt.id == TRIAGE_PROMPT:
            return replace(self, triage=prompt)
        if prompt.id == DECISION_PROMPT:
            return replace(self, decision=prompt)
        return replace(self, others={**self.others, prompt.id: prompt})

    def triage_for(self, config: InjectionConfig) -> Prompt:
        """The prompt that the settings name; the usual one where the folder has none by that name that fits."""
        if config.prompt == self.triage.id:
            return self.triage
        found = self.others.get(config.prompt)
        if found is None:
            _log.warning("prompt_unknown", prompt=config.prompt, used=self.triage.id)
        return found or self.triage


class LivePrompts:
    """The prompts of a folder, swapped as a whole when they are sound. Raises `PromptError` when they are not at first.

    `report` is told what is wrong with a changed folder, or `None` once nothing is any more. A folder without a prompt
    for decisions takes the shipped one.
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
        """Those in force now, which change no more; see `PromptSet.with_prompt`."""
        return self._prompts.with_prompt(prompt)

    async def reload(self) -> None:
        """Read the folder again; one that is broken changes nothing and is reported."""
        try:
            self._prompts = await asyncio.to_thread(_load, self._directory)
        except PromptError as error:
            self._report(str(error))
        else:
            self._report(None)


def _load(directory: Path) -> PromptSet:
    prompts = load_prompts(directory)
    if TRIAGE_PROMPT not in prompts:
        raise PromptError(f"{directory}: there is no prompt with the id {TRIAGE_PROMPT!r}")
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
"""The selector of the model by that name. Raises `ModelError` where it cannot be had in time."""


class LiveSelector:
    """Ask the models of a request's settings one after the other; a `worker.ports.models.Selector`.

    The next one is asked when one fails and time remains. A request keeps the prompt and masking that it began with.
    `names` returns a request's models, `clock` monotonic seconds. `select` raises the first model's `ModelError`, with
    all attempts.
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
            limit = deadline if last else deadline.within(SHARE * deadline.remaining())
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
                return replace(selection, attempts=(*(failed for _, failed in failures), attempt))
        raise _of_all(failures)

    def _spent(self, started: float) -> float:
        return round((self._clock() - started) * 1000.0, 3)


def _of_all(failures: list[tuple[ModelError, ModelAttempt]]) -> ModelError:
    """The first failure that says more than that there was no time, with every attempt."""
    attempts = tuple(attempt for _, attempt in failures)
    errors = [error for error, _ in failures] or [ModelError(Reason.MODEL_NO_TIME, "no model is named")]
    told = next((error for error in errors if error.reason is not Reason.MODEL_NO_TIME), errors[0])
    return ModelError(told.reason, str(told), attempts)


def presenter(config: InjectionConfig) -> Callable[[str], str]:
    """How these settings show a text to a model."""

    def present(content: str) -> str:
        return shown_text(content, TRIAGE_TEXT_CHARS, mask=config.mask_secrets)

    return present


def ask_by_kind(kind: Callable[[str, InjectionConfig], ModelKind], ways: Mapping[ModelKind, Ask]) -> Ask:
    """Selectors of models of any kind, each asked in its own way."""

    async def ask(name: str, config: InjectionConfig, deadline: Deadline) -> Selector:
        return await ways[kind(name, config)](name, config, deadline)

    return ask


def ask_chat(
    pool: "ModelPool[ChatModel]", prompt: Callable[[InjectionConfig], Prompt], usual_window: int = USUAL_CONTEXT
) -> Ask:
    """Selectors of chat models."""

    async def ask(name: str, config: InjectionConfig, deadline: Deadline) -> Selector:
        opened = await pool.get(name, deadline)
        window = opened.profile.context or usual_window
        return LlmSelector(opened.model, prompt(config), opened.breaker, present=presenter(config), window=window)

    return ask


def ask_decision(
    pool: "ModelPool[DecisionModel]", prompt: Callable[[], Prompt], scales: Mapping[str, DecisionScale]
) -> Ask:
    """Selectors of decision models, read by the scale that was fitted for each; a threshold in the settings wins."""

    async def ask(name: str, config: InjectionConfig, deadline: Deadline) -> Selector:
        opened = await pool.get(name, deadline)
        profile, scale = opened.profile, scales.get(name, DecisionScale())
        if profile.threshold is not None:
            scale = replace(scale, threshold=profile.threshold)
        limits = DecisionLimits(scale, profile.questions or USUAL_QUESTIONS, bool(profile.may_only_veto))
        return DecisionSelector(opened.model, prompt(), opened.breaker, present=presenter(config), limits=limits)

    return ask
