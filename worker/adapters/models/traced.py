"""Spans around calls of models, with the attributes of OpenTelemetry's conventions for generative AI, and no text."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import ChatReply, ChatRequest, DecisionReply, DecisionRequest, ModelUsage
from worker.domain.model_profile import ModelAbilities
from worker.ports.models import ChatModel, DecisionModel
from worker.ports.tracing import NO_TRACER, Attribute, Attributes, Span, SpanKind, Tracer
from worker.triage.model_pool import AnyModel

CHAT = "chat"
DECIDE = "decide"

PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "ollama_chat": "ollama",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""The conventions' names for providers that LiteLLM calls differently."""

Model = TypeVar("Model", bound=AnyModel)


class _Traced(Generic[Model]):
    """What both kinds of models share; `api_base` is the address of the model's server, if it is known."""

    def __init__(self, model: Model, tracer: Tracer, api_base: str | None) -> None:
        self._model = model
        self._tracer = tracer
        self._about = _about(model.name, api_base)

    @property
    def name(self) -> str:
        return self._model.name

    async def warm(self) -> None:
        await self._model.warm()

    async def aclose(self) -> None:
        await self._model.aclose()

    @contextmanager
    def _calling(self, operation: str, asked: Attributes) -> Iterator[Span]:
        """Return the context of a call's span."""
        about = {**self._about, "gen_ai.operation.name": operation, **asked}
        name = f"{operation} {self._about['gen_ai.request.model']}"
        with self._tracer.span(name, SpanKind.CLIENT, attributes=about) as span:
            try:
                yield span
            except ModelError as error:
                span.fail(error.reason.value)
                raise


class TracedChatModel(_Traced[ChatModel], ChatModel):
    """A chat model whose calls are spans."""

    @property
    def abilities(self) -> ModelAbilities:
        return self._model.abilities

    async def complete(self, request: ChatRequest, deadline: Deadline) -> ChatReply:
        asked: dict[str, Attribute] = {
            "gen_ai.request.max_tokens": request.max_tokens,
            "gen_ai.request.temperature": request.temperature,
            "gen_ai.output.type": "json" if request.schema else "text",
        }
        with self._calling(CHAT, asked) as span:
            reply = await self._model.complete(request, deadline)
            if reply.finish_reason:
                span.note({"gen_ai.response.finish_reasons": (reply.finish_reason,)})
            _note_usage(span, reply.usage)
            return reply


class TracedDecisionModel(_Traced[DecisionModel], DecisionModel):
    """A decision model whose calls are spans."""

    async def decide(self, request: DecisionRequest, deadline: Deadline) -> DecisionReply:
        with self._calling(DECIDE, {}) as span:
            reply = await self._model.decide(request, deadline)
            _note_usage(span, reply.usage)
            return reply


def traced_chat(model: ChatModel, tracer: Tracer, api_base: str | None) -> ChatModel:
    """Return the model with calls that are spans, if anything is traced."""
    return model if tracer is NO_TRACER else TracedChatModel(model, tracer, api_base)


def traced_decision(model: DecisionModel, tracer: Tracer, api_base: str | None) -> DecisionModel:
    """Return the model with calls that are spans, if anything is traced."""
    return model if tracer is NO_TRACER else TracedDecisionModel(model, tracer, api_base)


def _about(name: str, api_base: str | None) -> dict[str, Attribute]:
    """Return the attributes that are the same for every call; of the server's address, only host and port."""
    provider, _, model = name.partition("/")
    about: dict[str, Attribute] = {"gen_ai.request.model": model or name}
    if model:
        about["gen_ai.provider.name"] = PROVIDERS.get(provider, provider)
    server = urlsplit(api_base or "")
    if server.hostname:
        about["server.address"] = server.hostname
        about["server.port"] = server.port or (443 if server.scheme == "https" else 80)
    return about


def _note_usage(span: Span, usage: ModelUsage | None) -> None:
    if usage is None or not (usage.input_tokens or usage.output_tokens):
        return
    used = {"gen_ai.usage.input_tokens": usage.input_tokens, "gen_ai.usage.output_tokens": usage.output_tokens}
    if usage.cached_tokens:
        used["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    span.note(used)
