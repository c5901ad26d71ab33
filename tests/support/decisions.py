"""A decision model that says what it is told to, for tests of what stands above it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import DecisionReply, DecisionRequest, ModelUsage


@dataclass
class ScriptedDecisions:
    """`probability_of` gives the probability of each question; after `delay` seconds, or `error` instead."""

    probability_of: Callable[[str], float]
    name: str = "scripted/decisions"
    delay: float = 0.0
    error: Reason | None = None
    requests: list[DecisionRequest] = field(default_factory=list)

    async def decide(self, request: DecisionRequest, deadline: Deadline) -> DecisionReply:
        self.requests.append(request)
        await asyncio.sleep(min(self.delay, deadline.remaining()))
        if self.error is not None:
            raise ModelError(self.error, f"scripted {self.error.value}")
        if deadline.remaining() <= 0:
            raise ModelError(Reason.MODEL_TIMEOUT, "scripted timeout")
        usage = ModelUsage(self.name, calls=1, input_tokens=50, cost=0.0, elapsed_ms=1.0)
        return DecisionReply(tuple(self.probability_of(question) for question in request.questions), usage)

    async def warm(self) -> None:
        """Nothing to warm."""

    async def aclose(self) -> None:
        """Nothing to close."""


def by_text(probabilities: dict[str, float], otherwise: float = 0.1) -> Callable[[str], float]:
    """The probability of the first text that a question contains."""

    def probability_of(question: str) -> float:
        return next((value for text, value in probabilities.items() if text in question), otherwise)

    return probability_of
