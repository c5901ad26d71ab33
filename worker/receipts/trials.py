"""Try a message before anybody sends it: what each way of choosing would give it, without a trace."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hooks.contract import InjectionRequest, Mode, Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import OperationError
from worker.settings.injection import InjectionConfig, Strategy
from worker.triage.live_selector import DECISION_PROMPT, TRIAGE_PROMPT, LivePrompts, PromptSet
from worker.triage.prompt_files import Prompt, default_prompts_dir, load_prompts, prompt_text

from .dry_runs import DryRuns, prompt_of
from .trial_models import MODEL_MS, PromptText, Trial, Way

NO_MODEL = "no model is configured, so none can be asked; set `model` in [service] or `models` in [memory_injection]"

ModelOf = Callable[[InjectionConfig], tuple[str, Strategy] | None]
"""Returns the first model that these settings ask, and the strategy that fits it."""


@dataclass(frozen=True, slots=True)
class TrialParts:
    """Dependencies of trials; `folder` is that of base prompts."""

    runs: DryRuns
    config_for: Callable[[str], InjectionConfig]
    model_of: ModelOf
    prompts: LivePrompts | PromptSet
    folder: Path


class Trials:
    """Run trials."""

    def __init__(self, parts: TrialParts) -> None:
        self._parts = parts

    async def at_once(self, request: InjectionRequest, deadline: Deadline) -> list[Trial]:
        """Return what search scores and the relevance model would give. Raise `OperationError`."""
        config = self._parts.config_for(request.agent_id)
        return list(await asyncio.gather(*self._free(request, config, deadline)))

    def _free(
        self, request: InjectionRequest, config: InjectionConfig, deadline: Deadline
    ) -> list[Coroutine[Any, Any, Trial]]:
        return [
            self._trial(Way.SEARCH, request, config, {"strategy": Strategy.DETERMINISTIC}, deadline),
            self._trial(Way.RELEVANCE, request, config, {"strategy": Strategy.RELEVANCE}, deadline),
        ]

    async def with_model(self, request: InjectionRequest, text: str | None, deadline: Deadline) -> list[Trial]:
        """Return also what the agent's model would choose, and choose with the prompt `text` if there is one.

        Raise `OperationError` without a model, and for an invalid prompt.
        """
        config = self._parts.config_for(request.agent_id)
        if (asked := self._parts.model_of(config)) is None:
            raise OperationError(Reason.BAD_REQUEST, NO_MODEL)
        prompt = await asyncio.to_thread(prompt_of, text, self._parts.folder)
        changes: dict[str, object] = {"strategy": asked[1], "deadline_ms": MODEL_MS}
        runs = [*self._free(request, config, deadline), self._trial(Way.MODEL, request, config, changes, deadline)]
        if prompt is not None:
            runs.append(self._trial(Way.PROMPT, request, config, {**changes, **_asked_with(prompt)}, deadline, prompt))
        return list(await asyncio.gather(*runs))

    async def _trial(
        self,
        way: Way,
        request: InjectionRequest,
        config: InjectionConfig,
        changes: dict[str, object],
        deadline: Deadline,
        prompt: Prompt | None = None,
    ) -> Trial:
        used = config.model_copy(update=changes)
        mode = Mode.OFF if config.mode is Mode.OFF else Mode.ALWAYS
        tried = request.model_copy(update={"mode": mode, "deadline_ms": used.deadline_ms})
        receipt = await self._parts.runs.run(tried, used, deadline, prompt)
        return Trial(way=way, receipt=receipt, limit_ms=config.deadline_ms)

    async def prompt(self, agent_id: str, *, shipped: bool) -> PromptText:
        """Return the prompt in force for an agent's model, or the shipped one of this kind."""
        config, prompts = self._parts.config_for(agent_id), self._parts.prompts
        name, strategy = self._parts.model_of(config) or (None, Strategy.LLM)
        decides = strategy is Strategy.DECISION
        if shipped:
            found = (await asyncio.to_thread(load_prompts, default_prompts_dir()))[
                DECISION_PROMPT if decides else TRIAGE_PROMPT
            ]
        else:
            found = prompts.decision if decides else prompts.triage_for(config)
        return PromptText(name=found.name, text=prompt_text(found), model=name)


def _asked_with(prompt: Prompt) -> dict[str, object]:
    """Return the settings with which a model is asked with this prompt."""
    if prompt.id == DECISION_PROMPT:
        return {"strategy": Strategy.DECISION}
    return {"strategy": Strategy.LLM, "prompt": prompt.id}
