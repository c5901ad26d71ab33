"""Decision models through litellm: `POST /v1/systemone`. `prepare_environment` has to run before this is imported.

Each question is of the kind that answers yes or no with one probability ("noul"); the request and the answer have the
shapes that litellm's types `DecisionsRequestBody` and `DecisionsResponse` describe.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any

import litellm
import structlog
from litellm.llms.base_llm.decisions.transformation import DecisionsResponseValidationError

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import DecisionReply, DecisionRequest, ModelUsage

from .litellm_chat import CLIENT_TIMEOUT, FAULTS, causes, quieten, register_ollama, translate
from .litellm_clients import close_clients

_log = structlog.get_logger()

_CONTEXT = 2048
"""Tokens that litellm is told an Ollama model has; it asks no server for them, then, and does nothing else with it."""


class LiteLLMDecisionModel:
    """A decision model by litellm's name for it, such as `ollama/tev1:0.8b`.

    `max_concurrent` calls run at a time; waiting for a turn counts against the deadline. Servers that speak OpenAI's
    protocol besides (llama.cpp, vLLM) are `hosted_vllm/<name>` or `lm_studio/<name>` with an `api_base`.
    """

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        max_concurrent: int = 8,
        warm_timeout: float = 60.0,
    ) -> None:
        quieten()
        self._name = name
        self._slots = asyncio.Semaphore(max_concurrent)
        self._warm_timeout = warm_timeout
        self._options: dict[str, Any] = {"api_base": api_base, "api_key": api_key}
        if name.startswith(("ollama/", "ollama_chat/")):
            register_ollama(name, _CONTEXT)

    @property
    def name(self) -> str:
        return self._name

    async def decide(self, request: DecisionRequest, deadline: Deadline) -> DecisionReply:
        """One upstream request, never more. Raises `ModelError` with the reason, within the deadline."""
        if deadline.remaining() <= 0:
            raise ModelError(Reason.MODEL_NO_TIME, f"{self._name}: no time left for a call")
        started = time.monotonic()
        try:
            async with asyncio.timeout(deadline.remaining()), self._slots:
                response = await litellm.asystemone(**self._arguments(request))
        except TimeoutError:
            raise ModelError(Reason.MODEL_TIMEOUT, f"{self._name}: no answer within the deadline") from None
        except FAULTS as error:
            raise _translated(self._name, error) from None
        elapsed_ms = (time.monotonic() - started) * 1000
        answers: Mapping[str, Any] = response.answers
        probabilities = tuple(_probability(self._name, answers.get(_key(n))) for n in range(len(request.questions)))
        return DecisionReply(probabilities, _usage(self._name, response, elapsed_ms))

    async def warm(self) -> None:
        """Loads the model with one tiny call; a failure is only logged."""
        request = DecisionRequest("The light is on.", ("Is the light on?",))
        try:
            await self.decide(request, Deadline.after(self._warm_timeout))
        except ModelError as error:
            _log.warning("model_warm_failed", model=self._name, reason=error.reason.value)

    async def aclose(self) -> None:
        """Closes the connections of every litellm client in this process."""
        await close_clients()

    def _arguments(self, request: DecisionRequest) -> dict[str, Any]:
        questions = {_key(n): {"type": "noul", "instructions": text} for n, text in enumerate(request.questions)}
        return {
            **self._options,
            "model": self._name,
            "state": request.state,
            "questions": questions,
            "timeout": CLIENT_TIMEOUT,
            "num_retries": 0,
            "max_retries": 0,
        }


def _key(number: int) -> str:
    return f"m{number}"


def _probability(name: str, answer: Any) -> float:
    """The probability of "yes"; an answer that is missing, of another kind or no probability cannot be used."""
    value = getattr(answer, "noul", None)
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0.0 <= value <= 1.0:
        raise ModelError(Reason.MODEL_UNPARSEABLE, f"{name}: an answer is missing or is no probability")
    return float(value)


def _translated(name: str, error: Exception) -> ModelError:
    if any(isinstance(cause, DecisionsResponseValidationError) for cause in causes(error)):
        return ModelError(Reason.MODEL_UNPARSEABLE, f"{name}: the answer is out of shape")
    return translate(name, error)


def _usage(name: str, response: Any, elapsed_ms: float) -> ModelUsage:
    usage = response.usage
    hidden: Mapping[str, Any] = response.hidden_params
    return ModelUsage(
        model=name,
        calls=1,
        input_tokens=usage.input_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        cached_tokens=usage.cached_tokens if usage else 0,
        cost=hidden.get("response_cost"),
        elapsed_ms=elapsed_ms,
    )
