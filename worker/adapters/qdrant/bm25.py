"""BM25 term vectors without downloads, for both engines, made by Qdrant Edge's own encoder.

Three tokenisations meet in one vector. Words and stems of the configured language share a term's weight, so that
scores stay on the scale of plain BM25: the very word counts whole, another form of it a little less. Runs of scripts
without spaces between words, or with particles on them, are cut both into pairs of characters, which do not depend on
what stands around them, and into words. (The segmenting tokenizer drops bare numbers, so it is given only those runs.)
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import qdrant_edge

from hooks.contract import clean_text
from worker.domain.errors import SettingsError
from worker.domain.memory import SparseVector

RECIPE_VERSION = 3
"""Counts the changes of this encoder and of what texts it is given (`worker.text.names.keyword_text`)."""

AVERAGE_LENGTH = 40.0
"""Tokens of an average memory; BM25 weighs longer texts down."""

STOPPED = ("dutch", "english", "french", "german", "italian", "portuguese", "spanish", "swedish")
"""Languages whose stop words are always left out, for stores that mix languages: a foreign "le" or "und" is rare there,
so that it would weigh like a name."""

WORD_SHARE = 0.3
"""Share of a term's weight that goes to the word as written, the rest goes to its stem."""

PAIR_SHARE = 0.5
"""Share of a term's weight that goes to a pair of characters, the rest goes to the segmented word."""

MAX_CHARS = 100_000
"""Longest text that is taken in; what is beyond is left out."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)

_HIRAGANA = re.compile("[\u3040-\u309f]+")


def languages() -> tuple[str, ...]:
    """Languages whose stop words, and mostly stems, are known; "none" stands for words alone."""
    known = (name for name in dir(qdrant_edge.Language) if name[:1].isupper())
    return ("none", *sorted(name.lower() for name in known))


@dataclass(frozen=True, slots=True)
class _Cut:
    """One tokenisation: of which part of a text, and with which share of a term's weight."""

    part: Callable[["_Parts"], str]
    encoder: qdrant_edge.Bm25
    share: float


class Bm25Encoder:
    """A `SparseEncoder`: k1 1.2, b 0.75; weights of inverse document frequency are the store's part.

    Raises `SettingsError` for an unknown language.
    """

    def __init__(self, language: str = "english") -> None:
        self._language = language.strip().lower()
        if self._language not in languages():
            raise SettingsError(f"language: {language!r} is not known; known are {', '.join(languages())}")
        self._cuts = (*_spaced_cuts(self._language), *_unspaced_cuts())

    @property
    def config_hash(self) -> str:
        """Twelve hexadecimal digits of the recipe: vectors of different recipes do not compare well."""
        recipe = {
            "version": RECIPE_VERSION,
            "language": self._language,
            "stopped": STOPPED,
            "average_length": AVERAGE_LENGTH,
            "word_share": WORD_SHARE,
            "pair_share": PAIR_SHARE,
            "normalisation": "NFKC casefold",
        }
        return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]

    def query(self, text: str) -> SparseVector:
        """Every term of `text` with weight 1; empty where it has none."""
        parts = _split(text)
        found = (cut.encoder.embed_query(cut.part(parts)).indices for cut in self._cuts)
        indices = tuple(sorted(set(chain.from_iterable(found))))
        return SparseVector(indices, (1.0,) * len(indices))

    def passage(self, text: str) -> SparseVector:
        """The terms of `text` with BM25's weight of term frequency and length; empty where it has none."""
        parts = _split(text)
        terms: dict[int, float] = {}
        for cut in self._cuts:
            found = cut.encoder.embed_document(cut.part(parts))
            for index, value in zip(found.indices, found.values, strict=True):
                terms[index] = terms.get(index, 0.0) + cut.share * value
        indices = tuple(sorted(terms))
        return SparseVector(indices, tuple(terms[index] for index in indices))


def _spaced_cuts(language: str) -> tuple[_Cut, ...]:
    word = qdrant_edge.TokenizerType.Word
    if language == "none":
        return (_Cut(_spaced, _neutral(word, set()), 1.0),)
    stopped = {getattr(qdrant_edge.Language, name.capitalize()) for name in (*STOPPED, language)}
    stems = qdrant_edge.Bm25Config(
        tokenizer=word,
        ascii_folding=True,
        language=language,
        stopwords=qdrant_edge.StopwordsSet(languages=stopped),
        avg_len=AVERAGE_LENGTH,
    )
    return (
        _Cut(_spaced, _neutral(word, stopped), WORD_SHARE),
        _Cut(_spaced, qdrant_edge.Bm25(stems), 1.0 - WORD_SHARE),
    )


def _unspaced_cuts() -> tuple[_Cut, ...]:
    stopped = {qdrant_edge.Language.Chinese, qdrant_edge.Language.Japanese}
    return (
        _Cut(_pairs, _neutral(qdrant_edge.TokenizerType.Whitespace, set()), PAIR_SHARE),
        _Cut(_runs, _neutral(qdrant_edge.TokenizerType.Multilingual, stopped), 1.0 - PAIR_SHARE),
    )


def _neutral(tokenizer: qdrant_edge.TokenizerType, stopped: set[qdrant_edge.Language]) -> qdrant_edge.Bm25:
    config = qdrant_edge.Bm25Config(
        tokenizer=tokenizer,
        ascii_folding=True,
        stemmer=qdrant_edge.DisabledStemmer(),
        stopwords=qdrant_edge.StopwordsSet(languages=stopped),
        avg_len=AVERAGE_LENGTH,
    )
    return qdrant_edge.Bm25(config)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A text without its unspaced runs, and those."""

    spaced: str
    runs: tuple[str, ...]


def _split(text: str) -> _Parts:
    cleaned = unicodedata.normalize("NFKC", str(clean_text(text))[:MAX_CHARS]).casefold()
    if cleaned.isascii():
        return _Parts(cleaned, ())
    return _Parts(_UNSPACED.sub(" ", cleaned), tuple(_UNSPACED.findall(cleaned)))


def _spaced(parts: _Parts) -> str:
    return parts.spaced


def _runs(parts: _Parts) -> str:
    return " ".join(parts.runs)


def _pairs(parts: _Parts) -> str:
    """Every two neighbouring characters of each run, a single one alone; pure Hiragana is grammar for the most part."""
    found = (run[start : start + 2] for run in parts.runs for start in range(max(1, len(run) - 1)))
    return " ".join(pair for pair in found if not _HIRAGANA.fullmatch(pair))
