"""The relevance model's file: loaded without network, checked, and run in one thread of its own.

It comes from the distribution `meeseeks-relevance`, else from inside this package, else from the checkout. Two files:
`card.json` says what it is (version, SHA-256, the embedder it was made for, thresholds), `model.npz` holds the numbers.
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
from worker.domain.memory import Candidate, Memory, SelectionTask
from worker.relevance.features import Column, Pieces, RelevanceInput
from worker.relevance.model import Adjustment, RelevanceModel, Scores, Threshold, with_adjustment
from worker.relevance.need import head_from
from worker.relevance.trees import from_arrays

from .minilm import TOKENIZER_FILE, TOKENIZER_PACKAGE, TOKENIZER_SHA256, read_checked

DISTRIBUTION, PACKAGE, CARD, NUMBERS = "meeseeks-relevance", "meeseeks_relevance", "card.json", "model.npz"
FORMAT = 2
"""Counts changes of the file's form."""

MOST_BYTES = 25 * 2**20
MOST_PIECES = 160
MOST_CHARS = 4000
"""Pieces and characters of a text that are looked at."""

TEXTS_KEPT = 16_384
"""Texts whose pieces are kept by their numbers, for the same memories come up again; half a kilobyte each."""

WARM_AT = datetime(2026, 1, 1, tzinfo=UTC)

Found = TypeVar("Found")
Arrays = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class PieceTable:
    """By word piece its unit vector times 127, and its rarity of 0 to 1."""

    vectors: npt.NDArray[np.int8]
    rarity: Column

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        return {"pieces_vectors": self.vectors, "pieces_rarity": self.rarity}


def table_from(arrays: Arrays, pieces: int) -> PieceTable:
    """Raises `ValueError` or `KeyError` for arrays that are none."""
    vectors, rarity = arrays["pieces_vectors"], arrays["pieces_rarity"].astype(np.float32)
    if vectors.dtype != np.int8 or vectors.ndim != 2 or len(vectors) != pieces or rarity.shape != (pieces,):
        raise ValueError(f"the table of pieces does not fit the tokenizer: {vectors.shape}, {rarity.shape}")
    return PieceTable(vectors.astype(np.int8), rarity)


def make_tokenizer() -> Tokenizer:
    """The tokenizer that the table is for. Raises `EmbedderError` when its file is not the expected one."""
    tokenizer = Tokenizer.from_str(read_checked(TOKENIZER_PACKAGE, TOKENIZER_FILE, TOKENIZER_SHA256).decode("utf-8"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


class PieceCutter:
    """Cuts texts into pieces that count for something; the latest texts are kept. For one thread."""

    def __init__(self, table: PieceTable, tokenizer: Tokenizer) -> None:
        self._table = table
        self._tokenizer = tokenizer
        self._kept: OrderedDict[str, npt.NDArray[np.int32]] = OrderedDict()

    def __call__(self, text: str) -> Pieces:
        telling = self._telling(text)
        if not telling.size:
            return Pieces(np.zeros((1, self._table.vectors.shape[1]), np.float32), np.zeros(1, np.float32))
        return Pieces(self._table.vectors[telling].astype(np.float32) / 127.0, self._table.rarity[telling])

    def _telling(self, text: str) -> npt.NDArray[np.int32]:
        """The numbers of the pieces that do not stand everywhere."""
        known = self._kept.get(text)
        if known is not None:
            self._kept.move_to_end(text)
            return known
        pieces = self._tokenizer.encode(str(clean_text(text[:MOST_CHARS])), add_special_tokens=False).ids
        ids = np.array(pieces, dtype=np.int32)
        telling = ids[self._table.rarity[ids] > 0.0][:MOST_PIECES]
        self._kept[text] = telling
        if len(self._kept) > TEXTS_KEPT:
            self._kept.popitem(last=False)
        return telling


@dataclass(frozen=True, slots=True)
class RelevanceFile:
    """What was read: the relevance model, its table, and its card."""

    relevance_model: RelevanceModel
    table: PieceTable
    card: Mapping[str, Any]


def find_folder() -> Path | None:
    """Where the relevance model's files are, if they are there."""
    try:
        installed = import_module(PACKAGE).__file__
    except ImportError:
        installed = None
    places = [Path(installed).parent] if installed else []
    places += [PACKAGE_ROOT / "_relevance", PACKAGE_ROOT.parent / "relevance" / PACKAGE]
    return next((place for place in places if (place / CARD).is_file()), None)


def read_relevance_model(folder: Path | None = None) -> RelevanceFile:
    """The model in `folder`, else where it is found. Raises `RelevanceError` saying what is wrong and what to do."""
    place = folder or find_folder()
    if place is None:
        raise RelevanceError(f"the relevance model's files are not installed; `pip install {DISTRIBUTION}` brings them")
    try:
        card = json.loads((place / CARD).read_text(encoding="utf-8"))
        data = (place / NUMBERS).read_bytes()
        _check(card, data)
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return _read(card, dict(arrays))
    except EmbedderError as error:
        raise RelevanceError(str(error)) from error
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        anew = f"`pip install --force-reinstall {DISTRIBUTION}` brings it anew"
        raise RelevanceError(f"{place}: the relevance model's file cannot be used ({error}); {anew}") from error


def _check(card: Mapping[str, Any], data: bytes) -> None:
    if card["format"] != FORMAT:
        raise RelevanceError(
            f"version {card['version']} of the model has form {card['format']}, this service reads form {FORMAT}:"
            f" update the service, or install the {DISTRIBUTION} that was made for it"
        )
    found = hashlib.sha256(data).hexdigest()
    if found != card["sha256"] or len(data) > MOST_BYTES:
        raise ValueError(f"it is not the file of its card: sha256 {found[:12]}, the card says {card['sha256'][:12]}")


def _read(card: Mapping[str, Any], arrays: Arrays) -> RelevanceFile:
    columns = tuple(str(name) for name in card["columns"])
    points = {RelevanceProfile(name): Threshold(**values) for name, values in card["thresholds"].items()}
    if set(points) != set(RelevanceProfile):
        raise ValueError("a threshold is missing")
    relevance_model = RelevanceModel(
        version=str(card["version"]),
        fingerprint=str(card["embedder"]["fingerprint"]),
        columns=columns,
        head=head_from(arrays, int(card["embedder"]["dimension"])),
        trees=from_arrays(arrays, "trees", len(columns)),
        scale=float(card["scale"]),
        shift=float(card["shift"]),
        thresholds=points,
    )
    return RelevanceFile(relevance_model, table_from(arrays, make_tokenizer().get_vocab_size()), card)


class RelevanceProcess:
    """A relevance model in a thread of its own, one request after the other."""

    def __init__(self, file: RelevanceFile, change: Adjustment | None = None) -> None:
        self.relevance_model = file.relevance_model
        self._adjusted = with_adjustment(file.relevance_model, change)
        self._cut = PieceCutter(file.table, make_tokenizer())
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judge")

    async def probabilities(self, inputs: RelevanceInput) -> Column:
        """How likely each candidate belongs in the context, 0..1. Raises `RelevanceError`, also after `close`."""
        return await self._run(lambda: self._adjusted.probabilities(inputs, self._cut))

    async def scores(self, inputs: RelevanceInput) -> Scores:
        """The calibrated scores that probabilities are made from. Raises `RelevanceError`, also after `close`."""
        return await self._run(lambda: self.relevance_model.scores(inputs, self._cut))

    async def warm(self) -> None:
        """Judges something once: the first time takes some tenths of a second."""
        memory = Memory(id="warm", content="warm", created_at=WARM_AT)
        vector = np.zeros(len(self.relevance_model.head.vector), dtype=np.float32)
        task = SelectionTask("warm", None, (), "warm", WARM_AT)
        candidate = Candidate(memory, 0.0, None, 0.0, 0.0, tuple(vector.tolist()))
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
        """Ends the thread; what is still waiting for it is cancelled."""
        self._thread.shutdown(wait=False, cancel_futures=True)
