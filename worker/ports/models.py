"""Protocols for embedders, chat and decision models, and selectors."""

from collections.abc import Sequence
from typing import Protocol

from worker.domain.deadline import Deadline
from worker.domain.memory import EmbedderProfile, Recalled, RecallTool, Selection, SelectionTask, SparseVector, Vector
from worker.domain.model_calls import ChatReply, ChatRequest, DecisionReply, DecisionRequest
from worker.domain.model_profile import ModelAbilities
from worker.settings.injection import InjectionConfig


class Embedder(Protocol):
    """Embed texts as unit vectors of `profile.dimension` floats off the event loop. Raise `EmbedderError`."""

    @property
    def profile(self) -> EmbedderProfile: ...

    async def embed_query(self, text: str) -> Vector: ...

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


class SparseEncoder(Protocol):
    """Encode texts as BM25 term vectors; `config_hash` identifies the recipe."""

    @property
    def config_hash(self) -> str: ...

    def query(self, text: str) -> SparseVector: ...

    def passage(self, text: str) -> SparseVector: ...


class ChatModel(Protocol):
    """A chat model; `complete` makes one upstream call and raises `ModelError` within the deadline."""

    @property
    def name(self) -> str: ...

    @property
    def abilities(self) -> ModelAbilities: ...

    async def complete(self, request: ChatRequest, deadline: Deadline) -> ChatReply: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


class DecisionModel(Protocol):
    """A yes/no model; `decide` makes one upstream call and raises `ModelError` within the deadline."""

    @property
    def name(self) -> str: ...

    async def decide(self, request: DecisionRequest, deadline: Deadline) -> DecisionReply: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


class Selector(Protocol):
    """Choose the memories to inject; `recall` searches again within the request's scope and limits."""

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection: ...
