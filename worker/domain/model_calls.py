"""What is asked of models and what they answer: frozen values, no I/O."""

from dataclasses import dataclass
from typing import Any

from hooks.contract import Reason


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What one or more model calls cost; tokens where the provider says, `cost` in US dollars where it is known."""

    model: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    elapsed_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelAttempt:
    """One model that was to choose: `reason` says why it did not, `None` that it did; `cached` that it had before."""

    model: str
    reason: Reason | None = None
    elapsed_ms: float = 0.0
    cached: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model made it; `arguments` is unparsed text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """One answer of a chat model. `cut` says that it was streamed and `text` is what had arrived at the deadline."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: ModelUsage | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call of a chat model: messages in OpenAI's shape; tools and an output schema never go together."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    schema: dict[str, Any] | None = None
    max_tokens: int = 64
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """One call of a decision model: yes/no questions about a state."""

    state: str
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecisionReply:
    """The probability of "yes" for each question, in their order: each finite and from 0 to 1."""

    probabilities: tuple[float, ...]
    usage: ModelUsage | None = None
