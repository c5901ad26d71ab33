"""Chat models through LiteLLM. Call `prepare_environment` before importing this module."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import httpx
import litellm
from openai import APIConnectionError, APIStatusError

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import ChatReply, ChatRequest, ModelUsage, ToolCall
from worker.domain.model_profile import ModelAbilities, SchemaKind

from .litellm_clients import FAULTS, LiteLLMClient, causes

_SCHEMA_PROVIDERS = frozenset({"openai", "ollama_chat", "hosted_vllm", "lm_studio", "llamafile", "azure"})
"""Providers whose models support JSON schemas even if LiteLLM does not list the model."""

_NO_REASONING_PROVIDERS = frozenset({"gemini", "vertex_ai"})
"""Providers for which LiteLLM translates reasoning effort "none" to a thinking budget of 0."""


class LiteLLMModel(LiteLLMClient):
    """A chat model by LiteLLM's name, such as `ollama_chat/qwen3:1.7b` or `openai/gpt-5.4-nano`.

    `num_ctx` (tokens) and `keep_alive` are for Ollama, `extra_body` for servers that speak OpenAI's protocol. `ollama/`
    becomes `ollama_chat/`, whose protocol has roles and tools. `tools` and `output` override LiteLLM's list of
    abilities. With `stream`, a partial answer at the deadline is returned as `cut`.
    """

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        num_ctx: int = 8192,
        keep_alive: str = "30m",
        max_concurrent: int = 8,
        warm_timeout: float = 60.0,
        extra_body: Mapping[str, Any] | None = None,
        tools: bool | None = None,
        output: SchemaKind | None = None,
        may_only_veto: bool = False,
        stream: bool = False,
    ) -> None:
        name = "ollama_chat/" + name.removeprefix("ollama/") if name.startswith("ollama/") else name
        super().__init__(name, api_base, api_key, max_concurrent, warm_timeout)
        known, options = _capabilities(self._name, num_ctx, keep_alive)
        takes_tools = known.tools if tools is None else tools
        self._abilities = ModelAbilities(takes_tools, output or known.output, may_only_veto)
        self._stream = stream
        self._options |= options
        if extra_body:
            self._options["extra_body"] = dict(extra_body)

    @property
    def abilities(self) -> ModelAbilities:
        return self._abilities

    async def complete(self, request: ChatRequest, deadline: Deadline) -> ChatReply:
        """Send one upstream request. Raise `ModelError` within the deadline."""
        left = self._seconds_left(deadline)
        partial = _PartialReply(self._name)
        try:
            async with asyncio.timeout(left), self._slots:
                response = await litellm.acompletion(**self._arguments(request))
                if not self._streams(request):
                    return _reply(self._name, response, partial.elapsed_ms)
                await partial.take(response)
            return partial.reply()
        except TimeoutError:
            if partial.parts:
                return partial.reply(cut=True)
            raise ModelError(Reason.MODEL_TIMEOUT, f"{self._name}: no answer within the deadline") from None
        except FAULTS as error:
            raise translate(self._name, error) from None

    def _streams(self, request: ChatRequest) -> bool:
        # a partial tool call is useless
        return self._stream and not request.tools

    async def warm(self) -> None:
        """Load the model with one tiny call; log a failure."""
        request = ChatRequest(messages=({"role": "user", "content": "Say ok."},), max_tokens=1)
        await self._warm(lambda deadline: self.complete(request, deadline))

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            **self._options,
            "messages": [dict(message) for message in request.messages],
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "drop_params": True,
        }
        if request.tools:
            arguments["tools"] = [dict(tool) for tool in request.tools]
        elif request.schema and self._abilities.output is not SchemaKind.NONE:
            schema = {"name": "answer", "schema": request.schema, "strict": True}
            arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
        if self._streams(request):
            arguments |= {"stream": True, "stream_options": {"include_usage": True}}
        return arguments


@dataclass
class _PartialReply:
    """The part of a streamed answer received so far."""

    name: str
    parts: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    finish_reason: str | None = None
    last: Any = None

    @property
    def elapsed_ms(self) -> float:
        return (time.monotonic() - self.started) * 1000

    async def take(self, chunks: AsyncIterator[Any]) -> None:
        async for chunk in chunks:
            if getattr(chunk, "usage", None):
                self.last = chunk
            for choice in chunk.choices[:1]:
                self.parts += [choice.delta.content] if choice.delta.content else []
                self.finish_reason = choice.finish_reason or self.finish_reason

    def reply(self, *, cut: bool = False) -> ChatReply:
        if self.finish_reason == "content_filter":
            raise ModelError(Reason.MODEL_REFUSED, f"{self.name}: the model refused")
        usage = usage_of(self.name, self.last, self.elapsed_ms)
        return ChatReply("".join(self.parts), (), self.finish_reason, usage, cut=cut)


def _capabilities(name: str, num_ctx: int, keep_alive: str) -> tuple[ModelAbilities, dict[str, Any]]:
    """Return the model's known abilities and matching call options."""
    provider = name.partition("/")[0]
    if provider == "ollama_chat":
        register_ollama(name, num_ctx)
        effort = "low" if "/gpt-oss" in name else "none"
        return ModelAbilities(), {"num_ctx": num_ctx, "keep_alive": keep_alive, "reasoning_effort": effort}
    known = _known(name, provider)
    takes_schema = bool(litellm.supports_response_schema(name)) or (not known and provider in _SCHEMA_PROVIDERS)
    output = SchemaKind.JSON_SCHEMA if takes_schema else SchemaKind.NONE
    takes_tools = not known or bool(known.get("supports_function_calling"))
    return ModelAbilities(takes_tools, output), _reasoning_off(provider, known)


def _known(name: str, provider: str) -> Mapping[str, Any]:
    """Return LiteLLM's entry for the model, if any; it lists some models without the provider's prefix."""
    bare: Mapping[str, Any] = litellm.model_cost.get(name.partition("/")[2], {})
    return litellm.model_cost.get(name) or (bare if bare.get("litellm_provider") == provider else {})


def price_of(name: str) -> tuple[float, float] | None:
    """Return the US dollars per token read and written, `None` if unknown; a local model costs nothing."""
    provider = name.partition("/")[0]
    if provider.startswith("ollama"):
        return 0.0, 0.0
    known = _known(name, provider)
    read, written = known.get("input_cost_per_token"), known.get("output_cost_per_token")
    return None if read is None or written is None else (float(read), float(written))


def _reasoning_off(provider: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lowest supported reasoning effort, if the model is known to reason."""
    if not known.get("supports_reasoning"):
        return {}
    if known.get("supports_none_reasoning_effort") or provider in _NO_REASONING_PROVIDERS:
        return {"reasoning_effort": "none"}
    return {"reasoning_effort": "minimal"} if known.get("supports_minimal_reasoning_effort") else {}


def register_ollama(name: str, num_ctx: int) -> None:
    """Register the model, because LiteLLM would otherwise query Ollama in a call that blocks the event loop."""
    facts = {
        "litellm_provider": name.partition("/")[0],
        "mode": "chat",
        "max_tokens": num_ctx,
        "input_cost_per_token": 0.0,
        "output_cost_per_token": 0.0,
        "supports_function_calling": True,
    }
    litellm.register_model({name: facts})


def _reply(name: str, response: Any, elapsed_ms: float) -> ChatReply:
    choice = response.choices[0]
    message = choice.message
    if choice.finish_reason == "content_filter" or getattr(message, "refusal", None):
        raise ModelError(Reason.MODEL_REFUSED, f"{name}: the model refused")
    calls = tuple(
        ToolCall(call.id or f"call_{number}", call.function.name or "", call.function.arguments or "")
        for number, call in enumerate(message.tool_calls or ())
    )
    usage = usage_of(name, response, elapsed_ms)
    return ChatReply(text=message.content or "", tool_calls=calls, finish_reason=choice.finish_reason, usage=usage)


def usage_of(name: str, response: Any, elapsed_ms: float) -> ModelUsage:
    usage = getattr(response, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    hidden: Mapping[str, Any] = getattr(response, "_hidden_params", None) or {}
    return ModelUsage(
        model=name,
        calls=1,
        input_tokens=getattr(usage, "prompt_tokens", None) or 0,
        output_tokens=getattr(usage, "completion_tokens", None) or 0,
        cached_tokens=getattr(details, "cached_tokens", None) or 0,
        cost=hidden.get("response_cost"),
        elapsed_ms=elapsed_ms,
    )


def translate(name: str, error: Exception) -> ModelError:
    """Convert a vendor's error without its message, which may contain the response body."""
    if isinstance(error, litellm.exceptions.ContentPolicyViolationError):
        return ModelError(Reason.MODEL_REFUSED, f"{name}: the provider refused the content")
    if isinstance(error, litellm.exceptions.RateLimitError):
        return ModelError(Reason.MODEL_RATE_LIMITED, f"{name}: rate limited")
    if isinstance(error, litellm.exceptions.Timeout):
        return ModelError(Reason.MODEL_TIMEOUT, f"{name}: no answer in time")
    if any(_is_unreachable(cause) for cause in causes(error)):
        return ModelError(Reason.MODEL_UNREACHABLE, f"{name}: the server cannot be reached")
    status = error.status_code if isinstance(error, APIStatusError | litellm.exceptions.APIError) else None
    detail = f"HTTP {status}" if status else type(error).__name__
    return ModelError(Reason.MODEL_ERROR, f"{name}: the call failed ({detail})")


def _is_unreachable(error: BaseException) -> bool:
    return isinstance(error, httpx.TransportError | aiohttp.ClientConnectionError | ConnectionError) or (
        type(error) is APIConnectionError
    )
