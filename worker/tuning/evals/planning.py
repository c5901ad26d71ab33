"""From what somebody asks for to a plan: which worlds, which prompt, which model, which settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.bootstrap.opening import choose_model
from worker.domain.errors import SettingsError
from worker.settings.injection import InjectionConfig, Settings, Strategy
from worker.settings.service import ServiceSettings
from worker.triage.live_selector import DECISION_PROMPT, TRIAGE_PROMPT
from worker.triage.prompt_files import default_prompts_dir

from .plan import EvaluationPlan, fitted_files, own_config, read_labelled, within
from .prompt_files import PromptFile, chooser_in_force, prompts_in_force, with_first

CASES = "cases"
"""The labelled worlds that are shipped, below the folder of prompts."""

BY_MODEL = frozenset({Strategy.LLM, Strategy.DECISION})


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What somebody asks to be evaluated; what is unset is as the service has it.

    `settings` are keys and values of `[memory_injection]`, `worlds` a folder or a file, `only` names of worlds in it.
    """

    model: str | None = None
    model_api_base: str | None = None
    strategy: Strategy | None = None
    worlds: Path | None = None
    only: Sequence[str] = ()
    settings: Mapping[str, Any] | None = None
    repeat: int = 1
    parallel: int = 4
    max_cost: float | None = None
    deadline_ms: int | None = None


async def plan_of(loaded: Settings, requested: EvaluationRequest, prompt: PromptFile | None = None) -> EvaluationPlan:
    """Return the plan of an evaluation; `prompt` is asked with instead of the one in force.

    Raises `SettingsError` and `PromptError` for what is wrong with it.
    """
    worlds, hashes = read_labelled(requested.worlds or default_prompts_dir() / CASES)
    service = _service(loaded.service, requested)
    config = own_config(loaded, _overrides(requested))
    config |= _naming(prompt, config)
    configured = config.pop("deadline_ms", InjectionConfig().deadline_ms)
    plan = EvaluationPlan(
        service=service,
        config=config,
        prompts=_prompts(service, config, prompt),
        models=await _models(service, config),
        worlds=worlds,
        hashes=hashes,
        fitted=fitted_files(service.home),
        repeat=requested.repeat,
        parallel=requested.parallel,
        max_cost=requested.max_cost,
        deadline_ms=requested.deadline_ms or configured,
    )
    return within(plan, requested.only)


def _naming(prompt: PromptFile | None, config: Mapping[str, Any]) -> dict[str, Any]:
    """The setting by which a chat model is asked with this prompt, where it is not so anyway."""
    named = config.get("prompt", TRIAGE_PROMPT)
    if prompt is None or prompt.prompt.id in (DECISION_PROMPT, named):
        return {}
    return {"prompt": prompt.prompt.id}


def _prompts(service: ServiceSettings, config: Mapping[str, Any], prompt: PromptFile | None) -> tuple[PromptFile, ...]:
    """The prompts in force, `prompt` in the place of its namesake; the one in question comes first."""
    known = prompts_in_force(service)
    decides = config.get("strategy") == Strategy.DECISION
    usual = DECISION_PROMPT if decides else config.get("prompt", TRIAGE_PROMPT)
    return with_first(known, prompt or chooser_in_force(known, usual))


def _service(service: ServiceSettings, requested: EvaluationRequest) -> ServiceSettings:
    changes = {"model": requested.model, "model_api_base": requested.model_api_base}
    return service.model_copy(update={name: value for name, value in changes.items() if value is not None})


def _overrides(requested: EvaluationRequest) -> dict[str, Any]:
    """Return the settings of `[memory_injection]` that were asked for."""
    named = {"strategy": requested.strategy, "models": () if requested.model is not None else None}
    return {**{key: value for key, value in named.items() if value is not None}, **(requested.settings or {})}


async def _models(service: ServiceSettings, config: Mapping[str, Any]) -> tuple[str, ...]:
    """The models that are asked, in order. Raises `SettingsError` where the strategy needs one and there is none."""
    strategy = Strategy(config.get("strategy", Strategy.AUTO))
    if strategy in (Strategy.DETERMINISTIC, Strategy.RELEVANCE):
        return ()
    usual = await choose_model(service)
    found = tuple(config.get("models", ())) or ((usual,) if usual else ())
    if not found and strategy in BY_MODEL:
        raise SettingsError("there is no model to ask; name one with --model, or start a local Ollama")
    return found
