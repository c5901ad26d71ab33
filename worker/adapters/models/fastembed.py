"""Embedding models of the optional package fastembed, run in this process."""

import hashlib
import importlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hooks.contract import clean_text
from worker.domain.errors import EmbedderError
from worker.domain.memory import EmbedderProfile, Vector

from .threaded_embedder import RUN_FAULTS, ThreadedEmbedder

_FAMILIES = (
    ("nomic-embed-text", "search_query: ", "search_document: "),
    ("e5-", "query: ", "passage: "),
    ("snowflake-arctic-embed", "Represent this sentence for searching relevant passages: ", ""),
)
"""Part of a model's name, and its query and passage prefixes from the model card."""

BATCH = 16
QUERY_CHARACTERS = 4_096
PASSAGE_CHARACTERS = 32_768

_FAULTS = (*RUN_FAULTS, KeyError, OSError)
"""Errors of loading and running, including missing files and failed downloads."""


class FastEmbedEmbedder(ThreadedEmbedder):
    """A model by fastembed's name, such as `BAAI/bge-small-en-v1.5`.

    `model_path` is a folder with the model's files (`model.onnx`, `tokenizer.json`, `tokenizer_config.json`); without
    it they are downloaded on first use. The revision is a digest of the weights in the folder, else of their URL. Raise
    `EmbedderError` if the package is not installed or the model is unknown.
    """

    def __init__(self, model: str, *, model_path: Path | None = None, threads: int = 2) -> None:
        super().__init__("fastembed")
        self._name = model
        self._path = model_path
        self._threads = threads
        self._class = _text_embedding()
        self._profile = _profile(model, _description(self._class, model), model_path)
        self._model: Any = None

    @property
    def profile(self) -> EmbedderProfile:
        return self._profile

    async def embed_query(self, text: str) -> Vector:
        text = self._profile.query_prefix + text[:QUERY_CHARACTERS]
        return (await self._run(partial(self._embed, [text], lambda model, texts: model.query_embed(texts))))[0]

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text."""
        vectors: list[Vector] = []
        for start in range(0, len(texts), BATCH):
            batch = [self._profile.passage_prefix + text[:PASSAGE_CHARACTERS] for text in texts[start : start + BATCH]]
            async with self._passage_turn:
                vectors += await self._run(
                    partial(self._embed, batch, lambda model, texts: model.passage_embed(texts, batch_size=BATCH))
                )
        return vectors

    def _embed(self, texts: list[str], call: Callable[[Any, list[str]], Iterable[Any]]) -> list[Vector]:
        try:
            if self._model is None:
                source = {} if self._path is None else {"specific_model_path": str(self._path)}
                self._model = self._class(self._name, threads=self._threads, **source)
            rows = [np.asarray(row) for row in call(self._model, [str(clean_text(text)) for text in texts])]
        except _FAULTS as error:
            raise EmbedderError(f"{self._name}: loading or running failed ({type(error).__name__})") from error
        return [_unit(self._profile, row) for row in rows]


def _text_embedding() -> Any:
    """Import the class that loads models, since the package is optional."""
    try:
        return importlib.import_module("fastembed").TextEmbedding
    except ImportError as error:
        raise EmbedderError("fastembed is not installed: pip install memory-meeseeks[fastembed]") from error


def _description(text_embedding: Any, model: str) -> dict[str, Any]:
    known: list[dict[str, Any]] = text_embedding.list_supported_models()
    for description in known:
        if description["model"].lower() == model.lower():
            return description
    raise EmbedderError(f"fastembed does not support the model {model}")


def _profile(model: str, description: dict[str, Any], path: Path | None) -> EmbedderProfile:
    prefixes = next((family[1:] for family in _FAMILIES if family[0] in model.lower()), ("", ""))
    return EmbedderProfile(
        name=f"fastembed/{model}",
        revision=_revision(description, path),
        dimension=int(description["dim"]),
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
        raise EmbedderError(f"{path} has no readable {file}") from error


def _unit(profile: EmbedderProfile, row: Any) -> Vector:
    length = float(np.linalg.norm(row))
    if row.shape != (profile.dimension,) or not np.isfinite(length) or length == 0:
        raise EmbedderError(f"{profile.name}: the model returned an unusable vector")
    return tuple((row / length).tolist())
