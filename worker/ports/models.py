"""What the decision logic needs from the outside world; implemented in `worker.adapters`."""

from collections.abc import Sequence
from typing import Protocol

from worker.domain.deadline import Deadline
from worker.domain.memory import EmbedderProfile, Recalled, RecallTool, Selection, SelectionTask, SparseVector, Vector
from worker.domain.model_calls import ChatReply, ChatRequest, DecisionReply, DecisionRequest
from worker.domain.model_profile import ModelAbilities
from worker.settings.injection import InjectionConfig


class Embedder(Protocol):
    """Turns texts into unit vectors of `profile.dimension` floats. Raises `EmbedderError`; never blocks the loop."""

    @property
    def profile(self) -> EmbedderProfile: ...

    async def embed_query(self, text: str) -> Vector: ...

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


class SparseEncoder(Protocol):
    """Turns texts into BM25 term vectors; `config_hash` names the recipe."""

    @property
    def config_hash(self) -> str: ...

    def query(self, text: str) -> SparseVector: ...

    def passage(self, text: str) -> SparseVector: ...


class ChatModel(Protocol):
    """A chat model. `complete` raises `ModelError` with the reason, within the deadline, after one upstream call."""

    @property
    def name(self) -> str: ...

    @property
    def abilities(self) -> ModelAbilities: ...

    async def complete(self, request: ChatRequest, deadline: Deadline) -> ChatReply: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


class DecisionModel(Protocol):
    """A model that answers yes/no questions about a state. `decide` keeps to what is said of `ChatModel.complete`."""

    @property
    def name(self) -> str: ...

    async def decide(self, request: DecisionRequest, deadline: Deadline) -> DecisionReply: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


class Selector(Protocol):
    """Chooses what is worth injecting. `recall` searches again within the request's scope and limits."""

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection: ...
