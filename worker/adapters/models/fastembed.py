"""Embedding models of the optional package fastembed, run in this process."""

import asyncio
import hashlib
import importlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime.capi.onnxruntime_pybind11_state import (
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    RuntimeException,
)

from hooks.contract import clean_text
from worker.domain.errors import EmbedderError
from worker.domain.memory import EmbedderProfile, Vector

FLOOR, CONFIDENT, DUPLICATE = 0.25, 0.70, 0.97
"""For models that nobody measured: only what is off topic on any known scale is dropped, and without a chat model
only a near repetition of the query is injected. The scales of cosine differ too much for more."""

_FAMILIES = (
    ("nomic-embed-text", "search_query: ", "search_document: "),
    ("e5-", "query: ", "passage: "),
    ("snowflake-arctic-embed", "Represent this sentence for searching relevant passages: ", ""),
)
"""Part of the model's name, and the prefixes it was trained with (from the models' own cards)."""

BATCH = 16
QUERY_CHARACTERS = 4_096
PASSAGE_CHARACTERS = 32_768

_FAULTS = (
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    RuntimeException,
    RuntimeError,
    ValueError,
    KeyError,
    OSError,
)
"""What loading and running raise: the runtime's own errors, missing files (`ValueError`, `OSError`) and failed
downloads (`OSError`, of which the hub's errors are made; `ValueError` when every source failed)."""


class FastEmbedEmbedder:
    """A model by fastembed's name for it, such as `BAAI/bge-small-en-v1.5`.

    `model_path` is a folder with the model's files (`model.onnx`, `tokenizer.json`, `tokenizer_config.json`); without
    it the files are downloaded at first use. The revision is the digest of the weights where there is a folder, else
    of the address that they come from. Raises `EmbedderError`, at once when the package or the model is unknown.
    """

    def __init__(self, model: str, *, model_path: Path | None = None, threads: int = 2) -> None:
        self._name = model
        self._path = model_path
        self._threads = threads
        self._class = _text_embedding()
        self._profile = _profile(model, _description(self._class, model), model_path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fastembed")
        self._passage_turn = asyncio.Lock()
        self._model: Any = None

    @property
    def profile(self) -> EmbedderProfile:
        return self._profile

    async def embed_query(self, text: str) -> Vector:
        text = self._profile.query_prefix + text[:QUERY_CHARACTERS]
        return (await self._run([text], lambda model, texts: model.query_embed(texts)))[0]

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in the order given."""
        vectors: list[Vector] = []
        for start in range(0, len(texts), BATCH):
            batch = [self._profile.passage_prefix + text[:PASSAGE_CHARACTERS] for text in texts[start : start + BATCH]]
            async with self._passage_turn:
                vectors += await self._run(batch, lambda model, texts: model.passage_embed(texts, batch_size=BATCH))
        return vectors

    async def warm(self) -> None:
        """Loads the model, downloading it where it has to be, and runs it once."""
        await self.embed_query("warm")

    async def aclose(self) -> None:
        """Ends the thread; what is still waiting for it is cancelled."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, texts: list[str], call: Callable[[Any, list[str]], Iterable[Any]]) -> list[Vector]:
        try:
            future = self._thread.submit(self._embed, texts, call)
        except RuntimeError as error:
            raise EmbedderError("the embedder is closed") from error
        return await asyncio.wrap_future(future)

    def _embed(self, texts: list[str], call: Callable[[Any, list[str]], Iterable[Any]]) -> list[Vector]:
        """Runs in the thread."""
        try:
            if self._model is None:
                self._model = self._class(self._name, threads=self._threads, **_source(self._path))
            rows = [np.asarray(row) for row in call(self._model, [str(clean_text(text)) for text in texts])]
        except _FAULTS as error:
            raise EmbedderError(f"{self._name}: loading or running failed ({type(error).__name__})") from error
        return [_unit(self._profile, row) for row in rows]


def _text_embedding() -> Any:
    """The class that loads models; imported here because the package is optional."""
    try:
        return importlib.import_module("fastembed").TextEmbedding
    except ImportError as error:
        raise EmbedderError("fastembed is not installed: pip install memory-meeseeks[fastembed]") from error


def _description(text_embedding: Any, model: str) -> dict[str, Any]:
    known: list[dict[str, Any]] = text_embedding.list_supported_models()
    for description in known:
        if description["model"].lower() == model.lower():
            return description
    raise EmbedderError(f"fastembed does not know the model {model}")


def _profile(model: str, description: dict[str, Any], path: Path | None) -> EmbedderProfile:
    prefixes = next((family[1:] for family in _FAMILIES if family[0] in model.lower()), ("", ""))
    return EmbedderProfile(
        name=f"fastembed/{model}",
        revision=_revision(description, path),
        dimension=int(description["dim"]),
        candidate_threshold=FLOOR,
        confident=CONFIDENT,
        duplicate=DUPLICATE,
        query_prefix=prefixes[0],
        passage_prefix=prefixes[1],
    )


def _revision(description: dict[str, Any], path: Path | None) -> str:
    file = str(description["model_file"])
    if path is None:
        return hashlib.sha256(f"{description['sources']}\0{file}".encode()).hexdigest()[:12]
    try:
        with (path / file).open("rb") as weights:
            return hashlib.file_digest(weights, "sha256").hexdigest()[:12]
    except OSError as error:
        raise EmbedderError(f"there is no {file} in {path}") from error


def _source(path: Path | None) -> dict[str, Any]:
    return {} if path is None else {"specific_model_path": str(path)}


def _unit(profile: EmbedderProfile, row: Any) -> Vector:
    length = float(np.linalg.norm(row))
    if row.shape != (profile.dimension,) or not np.isfinite(length) or length == 0:
        raise EmbedderError(f"{profile.name}: the model gave no usable vector")
    return tuple((row / length).tolist())
