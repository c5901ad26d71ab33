"""Phrases, stop words and time expressions of each language, from `worker/text/phrases/*.toml`.

Files are read on first use and cached. Texts are compared after folding: lower case, without accents, and of the same
length, so that positions in the folded text are valid in the original.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from worker.domain.kinds import Language

COMMON = "common"
"""File of words that many languages share; part of every lexicon."""

UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u3131-\u318e"
"""Scripts split into single characters: kana, Han and Hangul."""

THUMBS = "\U0001f44d\U0001f44c\u2705\U0001f64f"
"""Emoji treated as words: thumbs up, OK, check mark, folded hands."""

_TOKEN = re.compile(f"[{THUMBS}]|[{UNSPACED}]|\\d+|[^\\W\\d_{UNSPACED}]+")
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
_HIRAGANA = re.compile("[\u3040-\u309f]")
_STRETCHED = re.compile(r"([^\W\d_])\1{2,}")


class PhraseKind(StrEnum):
    """Role of a phrase in a conversation, in increasing order of what it demands."""

    FILLER = "filler"
    GREETING = "greeting"
    THANKS = "thanks"
    ACKNOWLEDGEMENT = "acknowledgement"
    ASSENT = "assent"
    GO_AHEAD = "go_ahead"


Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Phrases:
    """A set of phrases; `longest` maps each first token to the length of its longest phrase."""

    known: frozenset[Phrase]
    longest: Mapping[str, int]

    def size_at(self, words: Sequence[str], start: int) -> int:
        """Return the length of the longest phrase at `start`, 0 for none."""
        most = min(self.longest.get(words[start], 0), len(words) - start)
        return next((size for size in range(most, 0, -1) if tuple(words[start : start + size]) in self.known), 0)

    def in_any(self, words: Sequence[str]) -> bool:
        """Return whether `words` contain a phrase."""
        return any(self.size_at(words, start) for start in range(len(words)))


def phrases_of(known: Iterable[Phrase]) -> Phrases:
    kept = frozenset(phrase for phrase in known if phrase)
    longest: dict[str, int] = {}
    for phrase in kept:
        longest[phrase[0]] = max(len(phrase), longest.get(phrase[0], 0))
    return Phrases(kept, longest)


@dataclass(frozen=True, slots=True)
class Grammar:
    """Function words of one language.

    `references` refer to something said before ("that one"); `openers` begin a follow-up ("and ...").
    """

    stop_words: Phrases
    references: Phrases
    openers: Phrases


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Phrases of some languages, as tuples of tokens, with their possible kinds."""

    phrases: Mapping[Phrase, frozenset[PhraseKind]]
    longest: int
    addressed: frozenset[Phrase]
    force: Phrases
    grammars: tuple[Grammar, ...]


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    folded = unicodedata.normalize("NFKC", character).lower()
    folded = folded if len(folded) == 1 else character
    parts = unicodedata.normalize("NFKD", folded)
    return parts[0] if len(parts) > 1 and all("\u0300" <= mark <= "\u036f" for mark in parts[1:]) else folded


def fold(text: str) -> str:
    """Return `text` in lower case without accents, position for position."""
    return text.lower() if text.isascii() else "".join(map(_fold_character, text))


def is_unspaced(token: str) -> bool:
    """Return whether a token is a character of a script without spaces."""
    return _UNSPACED_CHARACTER.match(token) is not None


def tokens(text: str) -> list[str]:
    """Return words, numbers, and single characters of scripts without spaces.

    A letter repeated three or more times is reduced to one ("graciasss").
    """
    folded = fold(unicodedata.normalize("NFC", text)).replace("’", "'").replace("'", "")
    return _TOKEN.findall(_STRETCHED.sub(r"\1", folded))


@cache
def phrase_file(name: str) -> Mapping[str, Any]:
    """Read a phrase file."""
    path = resources.files(__package__).joinpath("phrases", f"{name}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def lexicon(languages: tuple[Language, ...]) -> Lexicon:
    """Return the phrases of `languages`, including shared ones."""
    tables = [phrase_file(name) for name in (COMMON, *languages)]
    kinds: dict[Phrase, frozenset[PhraseKind]] = {}
    for kind in PhraseKind:
        for phrase in _phrases(tables, kind):
            kinds[phrase] = kinds.get(phrase, frozenset()) | {kind}
    return Lexicon(
        phrases=kinds,
        longest=max(map(len, kinds)),
        addressed=_phrases(tables, "addressed"),
        force=phrases_of(_phrases(tables, "force")),
        grammars=tuple(_grammar([tables[0], table]) for table in tables[1:]) or (_grammar(tables),),
    )


def content_tokens(text: str, known: Lexicon) -> int:
    """Count the content words of `text`: all but the stop words of the best-matching language.

    Characters of scripts without spaces count half. Hiragana does not count: nouns are written in Han or Katakana.
    """
    words = tokens(text)
    return min(_content(words, grammar) for grammar in known.grammars)


@dataclass(frozen=True, slots=True)
class Wording:
    """How self-contained a text is: its number of content words, and whether it refers to or continues earlier text."""

    content: int
    refers: bool
    goes_on: bool


def wording(text: str, known: Lexicon) -> Wording:
    """Return the wording of `text` in its best-matching languages."""
    words = tokens(text)
    counts = [_content(words, grammar) for grammar in known.grammars]
    likely = [grammar for grammar, count in zip(known.grammars, counts, strict=True) if count == min(counts)]
    return Wording(
        content=min(counts),
        refers=any(grammar.references.in_any(words) for grammar in likely),
        goes_on=bool(words) and any(grammar.openers.size_at(words, 0) for grammar in likely),
    )


def _grammar(tables: Sequence[Mapping[str, Any]]) -> Grammar:
    references = _phrases(tables, "references")
    openers = phrases_of(_phrases(tables, "openers"))
    return Grammar(phrases_of(_phrases(tables, "stop_words") | references), phrases_of(references), openers)


def _content(words: Sequence[str], grammar: Grammar) -> int:
    whole, halves, start = 0, 0, 0
    while start < len(words):
        size = grammar.stop_words.size_at(words, start)
        if size:
            start += size
            continue
        word = words[start]
        if _HIRAGANA.match(word) is None:
            halves += bool(_UNSPACED_CHARACTER.match(word))
            whole += not _UNSPACED_CHARACTER.match(word)
        start += 1
    return whole + (halves + 1) // 2


def _phrases(tables: Iterable[Mapping[str, Any]], key: str) -> frozenset[Phrase]:
    found = (tuple(_pattern(text)) for table in tables for text in table.get(key, ()))
    return frozenset(phrase for phrase in found if phrase)


def _pattern(text: str) -> list[str]:
    """Return the tokens of a phrase in a file, where "#" is a separate token."""
    return [token for part in text.split() for token in (["#"] if part == "#" else tokens(part))]
