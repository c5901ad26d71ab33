"""Embedding servers through litellm. `prepare_environment` has to run before this module is imported."""

import asyncio
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import httpx
import litellm
from openai import OpenAIError

from hooks.contract import clean_text
from worker.domain.errors import EmbedderError
from worker.domain.memory import EmbedderProfile, Vector

from .litellm_clients import close_clients

FLOOR, CONFIDENT, DUPLICATE = 0.25, 0.70, 0.97
"""For models that nobody measured: only what is off topic on any known scale is dropped, and without a chat model
only a near repetition of the query is injected. The scales of cosine differ too much for more."""

QUERY_TIMEOUT = 0.4
"""Seconds a query may take; a local server answers in a tenth of it, and the keyword leg goes on without."""

PASSAGE_TIMEOUT = 30.0
WARM_TIMEOUT = 60.0
"""Seconds for the first call, which may have to load the model."""

BATCH = 32
QUERY_CHARACTERS = 2_048
PASSAGE_CHARACTERS = 8_192
"""Longer texts are clipped: a server may refuse, instead of cut, what is over its context of 512 tokens or more."""

_CLIENT_TIMEOUT = 60.0
"""Constant, because litellm makes a new client for every other value; the timeouts above are kept around the call."""

_CHATTY_LOGGERS = ("LiteLLM", "openai", "httpx", "httpcore", "aiohttp")
"""Libraries that write whole requests, and so memory texts, to the log at debug or info level."""

_FAULTS = (OpenAIError, httpx.HTTPError, aiohttp.ClientError, OSError, ValueError, KeyError, TypeError, AttributeError)
"""What a failed call is known to raise: litellm's own errors all derive from OpenAI's; the rest come from answers
that are out of shape."""


@dataclass(frozen=True, slots=True)
class _Family:
    """What is known of the models whose name contains `part`."""

    part: str
    dimension: int | None = None
    query_prefix: str = ""
    passage_prefix: str = ""
    candidate_threshold: float = FLOOR
    confident: float = CONFIDENT
    duplicate: float = DUPLICATE


_UNKNOWN = _Family("")
_E5_PREFIXES = ("query: ", "passage: ")
_E5_THRESHOLDS = (0.81, 0.70, 0.97)
"""Floor measured on multilingual-e5-small: 5 % of off-topic queries pass it; unrelated texts have cosine 0.79."""

_FAMILIES = (
    _Family("nomic-embed-text", 768, "search_query: ", "search_document: "),
    _Family("e5-small", 384, *_E5_PREFIXES, *_E5_THRESHOLDS),
    _Family("e5-base", 768, *_E5_PREFIXES, *_E5_THRESHOLDS),
    _Family("e5-large", 1024, *_E5_PREFIXES, *_E5_THRESHOLDS),
    _Family("all-minilm", 384, candidate_threshold=0.25, confident=0.50, duplicate=0.92),
    _Family("mxbai-embed-large", 1024, "Represent this sentence for searching relevant passages: "),
    _Family("bge-m3", 1024),
    _Family("text-embedding-3-small", 1536),
    _Family("text-embedding-3-large", 3072),
    _Family("text-embedding-ada-002", 1536),
)
"""Dimensions and prefixes as the models' own cards give them; the first match counts."""


class LiteLLMEmbedder:
    """An embedding model by litellm's name, such as `ollama/nomic-embed-text` or `openai/text-embedding-3-small`.

    `dimension` is the length of the vectors; without it the length is that of the model's family or, for other
    models, of the first answer, and until then there is no `profile`: run `warm` first. `revision` names the model's
    version where the operator pins one. Each call is one upstream request, never repeated.
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
        _tame()
        self._model = model
        self._family = next((known for known in _FAMILIES if known.part in model.lower()), _UNKNOWN)
        self._dimension = dimension or self._family.dimension
        self._revision = revision
        self._query_timeout, self._passage_timeout = query_timeout, passage_timeout
        self._warm_timeout = warm_timeout
        self._options = _options(model, api_base, api_key, dimension)

    @property
    def profile(self) -> EmbedderProfile:
        """Raises `EmbedderError` while the dimension is unknown."""
        if self._dimension is None:
            raise EmbedderError(f"{self._model}: the length of its vectors is unknown: set it, or let it answer once")
        return EmbedderProfile(
            name=f"litellm/{self._model}",
            revision=self._revision,
            dimension=self._dimension,
            candidate_threshold=self._family.candidate_threshold,
            confident=self._family.confident,
            duplicate=self._family.duplicate,
            query_prefix=self._family.query_prefix,
            passage_prefix=self._family.passage_prefix,
        )

    async def embed_query(self, text: str) -> Vector:
        """Raises `EmbedderError` after `query_timeout` seconds at the latest."""
        return await self._embed_one(text, self._query_timeout)

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in the order given; `passage_timeout` holds for each request of 32 texts."""
        vectors: list[Vector] = []
        for start in range(0, len(texts), BATCH):
            batch = [
                _clipped(self._family.passage_prefix, text, PASSAGE_CHARACTERS) for text in texts[start : start + BATCH]
            ]
            vectors += await self._request(batch, self._passage_timeout)
        return vectors

    async def warm(self) -> None:
        """Lets the server load the model, and learns the length of its vectors where it is not known."""
        await self._embed_one("warm", self._warm_timeout)

    async def aclose(self) -> None:
        """Closes the connections of every litellm client in this process."""
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
        except _FAULTS as error:
            # Vendors' messages may hold request and response bodies and are left out, the chain included.
            raise EmbedderError(f"{self._model}: the call failed ({_kind(error)})") from None
        return self._checked(rows, len(texts))

    def _checked(self, rows: list[list[float]], expected: int) -> list[Vector]:
        if len(rows) != expected:
            raise EmbedderError(f"{self._model}: {len(rows)} vectors for {expected} texts")
        dimension = self._dimension or len(rows[0])
        vectors = [_unit(self._model, row, dimension) for row in rows]
        self._dimension = dimension
        return vectors


def _tame() -> None:
    """Keeps texts out of logs whatever the root logger's level, litellm's hints off stdout, and every call single.

    The default number of retries has to be 0 too: for embeddings litellm reads the argument `max_retries=0` as unset.
    """
    litellm.suppress_debug_info = True
    litellm.DEFAULT_MAX_RETRIES = 0  # type: ignore[attr-defined]
    for name in _CHATTY_LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))


def _options(model: str, api_base: str | None, api_key: str | None, dimension: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"model": model, "api_base": api_base, "api_key": api_key}
    if api_base and not api_key and model.startswith("openai/"):
        options["api_key"] = "none"
    if dimension and "text-embedding-3" in model:
        options["dimensions"] = dimension
    return {**options, "timeout": _CLIENT_TIMEOUT, "num_retries": 0, "max_retries": 0}


def _clipped(prefix: str, text: str, characters: int) -> str:
    return prefix + str(clean_text(text[:characters]))


def _rows(response: Any) -> list[list[float]]:
    """The vectors in the order of the texts; an answer may list them in another."""
    data = [row if isinstance(row, dict) else row.model_dump() for row in response.data]
    return [[float(value) for value in row["embedding"]] for row in sorted(data, key=lambda row: int(row["index"]))]


def _unit(model: str, row: list[float], dimension: int) -> Vector:
    if len(row) != dimension:
        raise EmbedderError(f"{model}: a vector of {len(row)} numbers instead of {dimension}")
    length = math.sqrt(math.fsum(value * value for value in row))
    if not math.isfinite(length) or length == 0.0:
        raise EmbedderError(f"{model}: a vector without direction")
    return tuple(value / length for value in row)


def _kind(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    if isinstance(error, litellm.exceptions.RateLimitError):
        return "rate limited"
    return f"HTTP {status}" if isinstance(status, int) else type(error).__name__
