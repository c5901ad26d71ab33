"""Requests to models and their replies."""

from dataclasses import dataclass
from typing import Any

from hooks.contract import Reason


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Usage of one or more model calls; `cost` in US dollars, `None` if unknown."""

    model: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    elapsed_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelAttempt:
    """One model's try at a selection; `reason` says why it failed, `cached` marks a reused selection."""

    model: str
    reason: Reason | None = None
    elapsed_ms: float = 0.0
    cached: bool = False


@dataclass(frozen=True, slots=True)
class ModelExchange:
    """What a model was asked in one call, without what the call before had asked already, and its raw answer."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model made it; `arguments` is unparsed text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A chat model's reply; `cut` marks a streamed reply that the deadline ended early."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: ModelUsage | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request with messages in OpenAI's format; set `tools` or `schema`, not both."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    schema: dict[str, Any] | None = None
    max_tokens: int = 64
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """Yes/no questions about a state, for a decision model."""

    state: str
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecisionReply:
    """The probability of "yes" for each question, in order; each is finite and between 0 and 1."""

    probabilities: tuple[float, ...]
    usage: ModelUsage | None = None
