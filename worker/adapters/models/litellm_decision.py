"""Decision models through LiteLLM's `POST /v1/systemone`. Call `prepare_environment` before importing this module.

Questions are of type "noul", answered with one probability. LiteLLM's types `DecisionsRequestBody` and
`DecisionsResponse` describe the formats.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any

import litellm
from litellm.llms.base_llm.decisions.transformation import DecisionsResponseValidationError

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import DecisionReply, DecisionRequest, ModelUsage

from .litellm_chat import register_ollama, translate
from .litellm_clients import FAULTS, LiteLLMClient, causes

_CONTEXT = 2048
"""Context size in tokens registered for Ollama models, only so that LiteLLM does not query the server for it."""


class LiteLLMDecisionModel(LiteLLMClient):
    """A decision model by LiteLLM's name, such as `ollama/tev1:0.8b`.

    For llama.cpp or vLLM, use `hosted_vllm/<name>` or `lm_studio/<name>` with an `api_base`.
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
        super().__init__(name, api_base, api_key, max_concurrent, warm_timeout)
        if name.startswith(("ollama/", "ollama_chat/")):
            register_ollama(name, _CONTEXT)

    async def decide(self, request: DecisionRequest, deadline: Deadline) -> DecisionReply:
        """Send one upstream request. Raise `ModelError` within the deadline."""
        left = self._seconds_left(deadline)
        started = time.monotonic()
        try:
            async with asyncio.timeout(left), self._slots:
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
        """Load the model with one tiny call; log a failure."""
        request = DecisionRequest("The light is on.", ("Is the light on?",))
        await self._warm(lambda deadline: self.decide(request, deadline))

    def _arguments(self, request: DecisionRequest) -> dict[str, Any]:
        questions = {_key(n): {"type": "noul", "instructions": text} for n, text in enumerate(request.questions)}
        return {**self._options, "state": request.state, "questions": questions}


def _key(number: int) -> str:
    return f"m{number}"


def _probability(name: str, answer: Any) -> float:
    """Return the probability of "yes". Raise `ModelError` if the answer is missing or invalid."""
    value = getattr(answer, "noul", None)
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0.0 <= value <= 1.0:
        raise ModelError(Reason.MODEL_UNPARSEABLE, f"{name}: an answer is missing or not a probability")
    return float(value)


def _translated(name: str, error: Exception) -> ModelError:
    if any(isinstance(cause, DecisionsResponseValidationError) for cause in causes(error)):
        return ModelError(Reason.MODEL_UNPARSEABLE, f"{name}: the answer is malformed")
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
