"""Embedding servers through LiteLLM. Call `prepare_environment` before importing this module."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import litellm

from hooks.contract import clean_text
from worker.domain.errors import EmbedderError
from worker.domain.memory import EmbedderProfile, Vector

from .litellm_clients import FAULTS, call_options, close_clients, configure

QUERY_TIMEOUT = 0.4
"""Seconds for a query; keyword search goes on without it. Local servers take a tenth of that."""

PASSAGE_TIMEOUT = 30.0
WARM_TIMEOUT = 60.0
"""Seconds for the first call, which may load the model."""

BATCH = 32
QUERY_CHARACTERS = 2_048
PASSAGE_CHARACTERS = 8_192
"""Longer texts are truncated, because some servers reject texts beyond their context (512 tokens or more)."""


@dataclass(frozen=True, slots=True)
class _Family:
    """Known facts about models with `part` in their name."""

    part: str
    dimension: int | None = None
    query_prefix: str = ""
    passage_prefix: str = ""
    thresholds: Mapping[str, float] = field(default_factory=dict)


_UNKNOWN = _Family("")
_E5_PREFIXES = ("query: ", "passage: ")
_E5_THRESHOLDS = {"candidate_threshold": 0.81}
"""Measured on multilingual-e5-small: 5 % of off-topic queries pass; unrelated texts have a cosine of 0.79."""

_FAMILIES = (
    _Family("nomic-embed-text", 768, "search_query: ", "search_document: "),
    _Family("e5-small", 384, *_E5_PREFIXES, _E5_THRESHOLDS),
    _Family("e5-base", 768, *_E5_PREFIXES, _E5_THRESHOLDS),
    _Family("e5-large", 1024, *_E5_PREFIXES, _E5_THRESHOLDS),
    _Family("all-minilm", 384, thresholds={"confident": 0.50, "duplicate": 0.92}),
    _Family("mxbai-embed-large", 1024, "Represent this sentence for searching relevant passages: "),
    _Family("bge-m3", 1024),
    _Family("text-embedding-3-small", 1536),
    _Family("text-embedding-3-large", 3072),
    _Family("text-embedding-ada-002", 1536),
)
"""Dimensions and prefixes from the model cards; the first match counts."""


class LiteLLMEmbedder:
    """An embedding model by LiteLLM's name, such as `ollama/nomic-embed-text` or `openai/text-embedding-3-small`.

    Without `dimension`, the length of the vectors is known for common models, and else taken from the first answer; run
    `warm` before reading `profile`. `revision` names a pinned model version. Calls are not retried.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        dimension: int | None = None,
        revision: str = "unpinned",
        query_timeout: float = QUERY_TIMEOUT,
        passage_timeout: float = PASSAGE_TIMEOUT,
        warm_timeout: float = WARM_TIMEOUT,
    ) -> None:
        configure()
        self._model = model
        self._family = next((known for known in _FAMILIES if known.part in model.lower()), _UNKNOWN)
        self._dimension = dimension or self._family.dimension
        self._revision = revision
        self._query_timeout, self._passage_timeout = query_timeout, passage_timeout
        self._warm_timeout = warm_timeout
        self._options = call_options(model, api_base, api_key)
        if dimension and "text-embedding-3" in model:
            self._options["dimensions"] = dimension

    @property
    def profile(self) -> EmbedderProfile:
        """Return the profile. Raise `EmbedderError` while the dimension is unknown."""
        if self._dimension is None:
            raise EmbedderError(f"{self._model}: the length of its vectors is unknown; set `embedder_dimension`")
        return EmbedderProfile(
            name=f"litellm/{self._model}",
            revision=self._revision,
            dimension=self._dimension,
            query_prefix=self._family.query_prefix,
            passage_prefix=self._family.passage_prefix,
            **self._family.thresholds,
        )

    async def embed_query(self, text: str) -> Vector:
        """Embed a query. Raise `EmbedderError` within `query_timeout` seconds."""
        return await self._embed_one(text, self._query_timeout)

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text; `passage_timeout` applies to each request of `BATCH` texts."""
        vectors: list[Vector] = []
        for start in range(0, len(texts), BATCH):
            batch = [
                _clipped(self._family.passage_prefix, text, PASSAGE_CHARACTERS) for text in texts[start : start + BATCH]
            ]
            vectors += await self._request(batch, self._passage_timeout)
        return vectors

    async def warm(self) -> None:
        """Make the server load the model, and learn the length of its vectors."""
        await self._embed_one("warm", self._warm_timeout)

    async def aclose(self) -> None:
        """Close the connections of all LiteLLM clients in this process."""
        await close_clients()

    async def _embed_one(self, text: str, seconds: float) -> Vector:
        return (await self._request([_clipped(self._family.query_prefix, text, QUERY_CHARACTERS)], seconds))[0]

    async def _request(self, texts: list[str], seconds: float) -> list[Vector]:
        try:
            async with asyncio.timeout(seconds):
                response = await litellm.aembedding(input=texts, **self._options)
            rows = _rows(response)
        except TimeoutError:
            raise EmbedderError(f"{self._model}: no answer within {seconds:g} s") from None
        except FAULTS as error:
            # vendors' messages, also of chained errors, may contain request and response bodies
            raise EmbedderError(f"{self._model}: the call failed ({_kind(error)})") from None
        return self._checked(rows, len(texts))

    def _checked(self, rows: list[list[float]], expected: int) -> list[Vector]:
        if len(rows) != expected:
            raise EmbedderError(f"{self._model}: the server returned {len(rows)} vectors for {expected} texts")
        dimension = self._dimension or len(rows[0])
        vectors = [_unit(self._model, row, dimension) for row in rows]
        self._dimension = dimension
        return vectors


def _clipped(prefix: str, text: str, characters: int) -> str:
    return prefix + str(clean_text(text[:characters]))


def _rows(response: Any) -> list[list[float]]:
    """Return the vectors in the order of the texts, which the answer may not keep."""
    data = [row if isinstance(row, dict) else row.model_dump() for row in response.data]
    return [[float(value) for value in row["embedding"]] for row in sorted(data, key=lambda row: int(row["index"]))]


def _unit(model: str, row: list[float], dimension: int) -> Vector:
    if len(row) != dimension:
        raise EmbedderError(f"{model}: the server returned a vector of length {len(row)} instead of {dimension}")
    length = math.sqrt(math.fsum(value * value for value in row))
    if not math.isfinite(length) or length == 0.0:
        raise EmbedderError(f"{model}: the server returned an unusable vector")
    return tuple(value / length for value in row)


def _kind(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    if isinstance(error, litellm.exceptions.RateLimitError):
        return "rate limited"
    return f"HTTP {status}" if isinstance(status, int) else type(error).__name__
