"""A `ChatModel` that says what it is told to, for tests of what stands above the model."""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import ChatReply, ChatRequest, ModelUsage, ToolCall
from worker.domain.model_profile import ModelAbilities


@dataclass(frozen=True)
class Say:
    """One reply: text or (name, arguments as raw text) tool calls, after `delay` seconds; or an error.

    `cut` is what had arrived of it at the deadline.
    """

    text: str = ""
    tool_calls: tuple[tuple[str, str], ...] = ()
    finish_reason: str = "stop"
    delay: float = 0.0
    error: Reason | None = None
    cut: bool = False


Step = Say | str | Callable[[ChatRequest], str | Say]


@dataclass
class ScriptedModel:
    """Plays its steps in order, then the last one for ever; keeps the deadline as a real model does."""

    steps: Sequence[Step]
    name: str = "scripted/model"
    requests: list[ChatRequest] = field(default_factory=list)
    abilities: ModelAbilities = field(default_factory=ModelAbilities)

    async def complete(self, request: ChatRequest, deadline: Deadline) -> ChatReply:
        step = self.steps[min(len(self.requests), len(self.steps) - 1)]
        self.requests.append(request)
        said = step(request) if callable(step) else step
        say = said if isinstance(said, Say) else Say(said)
        if say.delay > deadline.remaining():
            await asyncio.sleep(deadline.remaining())
            raise ModelError(Reason.MODEL_TIMEOUT, "scripted timeout")
        await asyncio.sleep(say.delay)
        if say.error is not None:
            raise ModelError(say.error, f"scripted {say.error.value}")
        calls = tuple(ToolCall(f"call_{i}", name, raw) for i, (name, raw) in enumerate(say.tool_calls))
        usage = ModelUsage(self.name, calls=1, input_tokens=100, output_tokens=10, cached_tokens=5, elapsed_ms=1.0)
        return ChatReply(say.text, calls, say.finish_reason, usage, cut=say.cut)

    async def warm(self) -> None:
        """Nothing to warm."""

    async def aclose(self) -> None:
        """Nothing to close."""


def offered(request: ChatRequest) -> dict[int, str]:
    """The numbered candidates that a request shows since its task was set, without the examples'."""
    turns = [str(m.get("content") or "") for m in request.messages if m["role"] in ("user", "tool")]
    start = max(i for i, text in enumerate(turns) if text.startswith("Now: "))
    lines = re.findall(r"^\[(\d+)\] (.*)$", "\n".join(turns[start:]), re.MULTILINE)
    return {int(number): line for number, line in lines}


def oracle(needles: Iterable[str]) -> Callable[[ChatRequest], str]:
    """A step that picks the candidates whose line contains one of the needles."""
    wanted = tuple(needles)

    def answer(request: ChatRequest) -> str:
        ids = [n for n, line in offered(request).items() if any(needle in line for needle in wanted)]
        return f'{{"relevant":{ids},"sufficient":true}}'.replace(" ", "")

    return answer
