"""Chat models through litellm. `prepare_environment` has to run before this module is imported."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import httpx
import litellm
import structlog
from openai import APIConnectionError, APIStatusError, OpenAIError

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import ChatReply, ChatRequest, ModelUsage, ToolCall
from worker.domain.model_profile import ModelAbilities, SchemaKind

from .litellm_clients import close_clients

_log = structlog.get_logger()

_CHATTY_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai", "httpx", "httpcore", "aiohttp")
"""Libraries that write whole requests, and so memory texts, to the log at debug or info level."""

CLIENT_TIMEOUT = 60.0
"""Seconds litellm itself may take; constant, because litellm makes a new client, and so a new connection, for every
other value. The deadline is kept by the timeout around the call."""

_SCHEMA_PROVIDERS = frozenset({"openai", "ollama_chat", "hosted_vllm", "lm_studio", "llamafile", "azure"})
"""Providers whose models take a JSON schema even where litellm's list does not know the model."""

_NO_REASONING_PROVIDERS = frozenset({"gemini", "vertex_ai"})
"""Providers for which litellm turns reasoning effort "none" into a thinking budget of zero."""

FAULTS = (
    OpenAIError,
    httpx.HTTPError,
    aiohttp.ClientError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)
"""What a failed call is known to raise: litellm's own errors all derive from OpenAI's; the rest come from answers
that are out of shape."""


class LiteLLMModel:
    """A chat model by litellm's name for it, such as `ollama_chat/qwen3:1.7b` or `openai/gpt-5.4-nano`.

    `num_ctx` is the context window in tokens that Ollama is asked for, `keep_alive` how long it keeps the model
    loaded, `max_concurrent` how many calls run at a time; waiting for a turn counts against the deadline.
    `extra_body` is merged into the request of servers that speak OpenAI's protocol. `ollama/` is read as
    `ollama_chat/`, whose protocol has roles and tools. `tools` and `output` say what the model can do where litellm's
    list is not to decide; with `stream`, what has arrived at the deadline is an answer that is `cut`.
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
        quieten()
        self._name = "ollama_chat/" + name.removeprefix("ollama/") if name.startswith("ollama/") else name
        self._slots = asyncio.Semaphore(max_concurrent)
        self._warm_timeout = warm_timeout
        known, options = _capabilities(self._name, num_ctx, keep_alive)
        takes_tools = known.tools if tools is None else tools
        self._abilities = ModelAbilities(takes_tools, output or known.output, may_only_veto)
        self._stream = stream
        self._options: dict[str, Any] = {**options, "api_base": api_base, "api_key": api_key}
        if api_base and not api_key and self._name.startswith("openai/"):
            self._options["api_key"] = "none"
        if extra_body:
            self._options["extra_body"] = dict(extra_body)

    @property
    def name(self) -> str:
        return self._name

    @property
    def abilities(self) -> ModelAbilities:
        return self._abilities

    async def complete(self, request: ChatRequest, deadline: Deadline) -> ChatReply:
        """One upstream request, never more. Raises `ModelError` with the reason, within the deadline."""
        if deadline.remaining() <= 0:
            raise ModelError(Reason.MODEL_NO_TIME, f"{self._name}: no time left for a call")
        arrived = _Arrived(self._name)
        try:
            async with asyncio.timeout(deadline.remaining()), self._slots:
                response = await litellm.acompletion(**self._arguments(request))
                if not self._streams(request):
                    return _reply(self._name, response, arrived.elapsed_ms)
                await arrived.take(response)
            return arrived.reply()
        except TimeoutError:
            if arrived.parts:
                return arrived.reply(cut=True)
            raise ModelError(Reason.MODEL_TIMEOUT, f"{self._name}: no answer within the deadline") from None
        except FAULTS as error:
            raise translate(self._name, error) from None

    def _streams(self, request: ChatRequest) -> bool:
        """A tool call is of no use before it is whole."""
        return self._stream and not request.tools

    async def warm(self) -> None:
        """Loads the model with one tiny call; a failure is only logged."""
        request = ChatRequest(messages=({"role": "user", "content": "Say ok."},), max_tokens=1)
        try:
            await self.complete(request, Deadline.after(self._warm_timeout))
        except ModelError as error:
            _log.warning("model_warm_failed", model=self._name, reason=error.reason.value)

    async def aclose(self) -> None:
        """Closes the connections of every litellm client in this process."""
        await close_clients()

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            **self._options,
            "model": self._name,
            "messages": [dict(message) for message in request.messages],
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "timeout": CLIENT_TIMEOUT,
            "num_retries": 0,
            "max_retries": 0,
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
class _Arrived:
    """What of a streamed answer has arrived."""

    name: str
    parts: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    finish_reason: str | None = None
    last: Any = None

    @property
    def elapsed_ms(self) -> float:
        return (time.monotonic() - self.started) * 1000

    async def take(self, chunks: AsyncIterator[Any]) -> None:
        """All chunks, in their order."""
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


def quieten() -> None:
    """Keeps prompts out of logs whatever the root logger's level, and litellm's hints off stdout."""
    litellm.suppress_debug_info = True
    for name in _CHATTY_LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))


def _capabilities(name: str, num_ctx: int, keep_alive: str) -> tuple[ModelAbilities, dict[str, Any]]:
    """What the model is known to take, and the options that fit it."""
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
    """litellm's entry for the model, where it has one; some providers' models are listed without their prefix."""
    bare: Mapping[str, Any] = litellm.model_cost.get(name.partition("/")[2], {})
    return litellm.model_cost.get(name) or (bare if bare.get("litellm_provider") == provider else {})


def _reasoning_off(provider: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """The least reasoning that the model is known to judge; nothing where it is not known to reason."""
    if not known.get("supports_reasoning"):
        return {}
    if known.get("supports_none_reasoning_effort") or provider in _NO_REASONING_PROVIDERS:
        return {"reasoning_effort": "none"}
    return {"reasoning_effort": "minimal"} if known.get("supports_minimal_reasoning_effort") else {}


def register_ollama(name: str, num_ctx: int) -> None:
    """Tells litellm the model's facts; it would ask Ollama for them in a call that blocks the event loop."""
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
    """The error by its kind; vendors' messages may hold response bodies and are left out."""
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


def causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(20):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__


def _is_unreachable(error: BaseException) -> bool:
    return isinstance(error, httpx.TransportError | aiohttp.ClientConnectionError | ConnectionError) or (
        type(error) is APIConnectionError
    )
