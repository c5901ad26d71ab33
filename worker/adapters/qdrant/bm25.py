"""BM25 term vectors for both engines, made by Qdrant Edge's encoder without downloads.

A vector combines several tokenizations. Words and their stems in the configured language share a term's weight, so that
scores stay on BM25's scale: an exact word counts fully, another form of it a little less. Text in scripts without
spaces, or with particles attached to words, is split into pairs of characters, which do not depend on their context,
and into words. The segmenting tokenizer gets only such text, because it drops bare numbers.
"""

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain

import qdrant_edge

from hooks.contract import clean_text
from worker.domain.errors import SettingsError
from worker.domain.memory import SparseVector
from worker.text.excerpts import pieces
from worker.text.word_lists import WORDS_CACHED

RECIPE_VERSION = 5
"""Version of this encoder and of its input, `worker.text.names.keyword_text`."""

AVERAGE_LENGTH = 40.0
"""Tokens of an average memory; BM25 gives longer texts less weight."""

STOPPED = ("dutch", "english", "french", "german", "italian", "portuguese", "spanish", "swedish")
"""Languages whose stop words are removed from texts in them; in a store of mixed languages, a rare "le" or "und" would
weigh as much as a name."""

LEAST_STOP_WORDS = 2
"""Different stop words that show a text to be in another language, if it has fewer of the configured one. A single one
may be a name or an abbreviation: "mia" is Italian for "my", "mot" Swedish for "against"."""

WORD_SHARE = 0.3
"""Share of a term's weight for the exact word; the rest is for its stem."""

PAIR_SHARE = 0.5
"""Share of a term's weight for a pair of characters; the rest is for the segmented word."""

MAX_CHARS = 100_000
"""Length to which texts are truncated."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)

_HIRAGANA = re.compile("[\u3040-\u309f]+")

_WORD = re.compile(r"[^\W\d_]+")


def languages() -> tuple[str, ...]:
    """Return the supported languages; "none" means exact words only."""
    known = (name for name in dir(qdrant_edge.Language) if name[:1].isupper())
    return ("none", *sorted(name.lower() for name in known))


@dataclass(frozen=True, slots=True)
class _Tokenization:
    """A tokenization of a part of the text, with its share of a term's weight."""

    part: Callable[["_Parts"], str]
    encoder: qdrant_edge.Bm25
    share: float


class Bm25Encoder:
    """A `SparseEncoder` with k1 = 1.2 and b = 0.75; the store applies inverse document frequency."""

    def __init__(self, language: str = "english") -> None:
        self._language = language.strip().lower()
        if self._language not in languages():
            raise SettingsError(f"language: unknown language {language!r}; use one of {', '.join(languages())}")
        self._tokenizations = (*_spaced_tokenizations(self._language), *_unspaced_tokenizations())

    @property
    def config_hash(self) -> str:
        """Return twelve hexadecimal digits that identify the recipe; other recipes give different scores."""
        recipe = {
            "version": RECIPE_VERSION,
            "language": self._language,
            "stopped": STOPPED,
            "least_stop_words": LEAST_STOP_WORDS,
            "average_length": AVERAGE_LENGTH,
            "word_share": WORD_SHARE,
            "pair_share": PAIR_SHARE,
            "normalisation": "NFKC casefold",
        }
        return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]

    def query(self, text: str) -> SparseVector:
        """Return the terms of `text`, each with weight 1."""
        parts = _split(text, self._language)
        found = (each.encoder.embed_query(each.part(parts)).indices for each in self._tokenizations)
        indices = tuple(sorted(set(chain.from_iterable(found))))
        return SparseVector(indices, (1.0,) * len(indices))

    def passage(self, text: str) -> SparseVector:
        """Return the terms of `text`, weighted by term frequency and length; of a long text, by the best piece."""
        terms: dict[int, float] = {}
        for piece in pieces(text[:MAX_CHARS]) or (text,):
            for index, weight in self._weights(piece).items():
                terms[index] = max(weight, terms.get(index, 0.0))
        indices = tuple(sorted(terms))
        return SparseVector(indices, tuple(terms[index] for index in indices))

    def _weights(self, text: str) -> dict[int, float]:
        parts = _split(text, self._language)
        terms: dict[int, float] = {}
        for each in self._tokenizations:
            found = each.encoder.embed_document(each.part(parts))
            for index, value in zip(found.indices, found.values, strict=True):
                terms[index] = terms.get(index, 0.0) + each.share * value
        return terms


def _spaced_tokenizations(language: str) -> tuple[_Tokenization, ...]:
    word = qdrant_edge.TokenizerType.Word
    if language == "none":
        return (_Tokenization(_spaced, _neutral(word, set()), 1.0),)
    stop_languages = {getattr(qdrant_edge.Language, language.capitalize())}
    stems = qdrant_edge.Bm25Config(
        tokenizer=word,
        ascii_folding=True,
        language=language,
        stopwords=qdrant_edge.StopwordsSet(languages=stop_languages),
        avg_len=AVERAGE_LENGTH,
    )
    return (
        _Tokenization(_spaced, _neutral(word, stop_languages), WORD_SHARE),
        _Tokenization(_spaced, qdrant_edge.Bm25(stems), 1.0 - WORD_SHARE),
    )


def _unspaced_tokenizations() -> tuple[_Tokenization, ...]:
    stop_languages = {qdrant_edge.Language.Chinese, qdrant_edge.Language.Japanese}
    return (
        _Tokenization(_pairs, _neutral(qdrant_edge.TokenizerType.Whitespace, set()), PAIR_SHARE),
        _Tokenization(_runs, _neutral(qdrant_edge.TokenizerType.Multilingual, stop_languages), 1.0 - PAIR_SHARE),
    )


def _neutral(tokenizer: qdrant_edge.TokenizerType, stop_languages: set[qdrant_edge.Language]) -> qdrant_edge.Bm25:
    config = qdrant_edge.Bm25Config(
        tokenizer=tokenizer,
        ascii_folding=True,
        stemmer=qdrant_edge.DisabledStemmer(),
        stopwords=qdrant_edge.StopwordsSet(languages=stop_languages),
        avg_len=AVERAGE_LENGTH,
    )
    return qdrant_edge.Bm25(config)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A text without its unspaced runs, and the runs."""

    spaced: str
    runs: tuple[str, ...]


def _split(text: str, language: str) -> _Parts:
    cleaned = unicodedata.normalize("NFKC", str(clean_text(text))[:MAX_CHARS]).casefold()
    unspaced = () if cleaned.isascii() else tuple(_UNSPACED.findall(cleaned))
    spaced = _UNSPACED.sub(" ", cleaned) if unspaced else cleaned
    return _Parts(_without_foreign_stop_words(spaced, language), unspaced)


def _without_foreign_stop_words(text: str, language: str) -> str:
    """Remove the stop words of each language that `text` is in, beside `language`."""
    stopping = {word: _stopping(word, language) for word in set(_WORD.findall(text))}
    counts = Counter(chain.from_iterable(stopping.values()))
    least = max(LEAST_STOP_WORDS, counts.pop(language, 0) + 1)
    present = {name for name, count in counts.items() if count >= least}
    removed = {word for word, names in stopping.items() if not present.isdisjoint(names)}
    return _WORD.sub(lambda found: "" if found[0] in removed else found[0], text) if removed else text


@lru_cache(maxsize=WORDS_CACHED)
def _stopping(word: str, language: str) -> tuple[str, ...]:
    """Return the languages that `word` is a stop word of: only `language` if it is one of it."""
    if language == "none":
        return ()
    if _is_stop_word(word, language):
        return (language,)
    return tuple(name for name in STOPPED if _is_stop_word(word, name))


def _is_stop_word(word: str, language: str) -> bool:
    return not _stopper(language).embed_query(word).indices


@cache
def _stopper(language: str) -> qdrant_edge.Bm25:
    return _neutral(qdrant_edge.TokenizerType.Word, {getattr(qdrant_edge.Language, language.capitalize())})


def _spaced(parts: _Parts) -> str:
    return parts.spaced


def _runs(parts: _Parts) -> str:
    return " ".join(parts.runs)


def _pairs(parts: _Parts) -> str:
    """Return the pairs of adjacent characters of each run, except pure Hiragana, which is mostly grammar."""
    found = (run[start : start + 2] for run in parts.runs for start in range(max(1, len(run) - 1)))
    return " ".join(pair for pair in found if not _HIRAGANA.fullmatch(pair))
