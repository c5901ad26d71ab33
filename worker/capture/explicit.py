"""Find what users ask to be remembered: "remember that ...", "from now on ...", "merk dir ...". Pure.

The request stands at the beginning of a sentence, after courtesies at most. What follows is kept exactly as said; a
sentence with "from now on" is kept as a whole.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from worker.domain.kinds import Language
from worker.text.lexicon import fold, phrase_file, tokens

FEWEST_WORDS = 2
_END = ".!?…。！？ \t\n,;:，"
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”»)]{0,2}\s+|(?<=[。！？])\s*|\n+")
_SHORT_WORD = re.compile(
    r"(?:^|[\s(\"'])(?:[^\W\d_]|dr|prof|mr|mrs|ms|hr|fr|st|sr|sra|dott|ing|nr|no|tel|vs|bzw|ca|approx|e\.g|i\.e|z\.b)\.$",
    re.IGNORECASE,
)
"""The end of a piece that ends with an abbreviation ("Dr."), not with a sentence."""

_ASKING = (
    r"(?:(?:can|could|would|will) (?:you|u)|kannst du|konntest du|konnen sie|peux-tu|tu peux|pourrais-tu|puedes"
    r"|podrias|podes|pode|puoi|potresti)(?!\w)"
)
_ASKED = re.compile(r"[?？]\s*$")


@dataclass(frozen=True, slots=True)
class ExplicitRequest:
    """What to remember, and the sentence that asked for it; `standing` is a rule for the future."""

    content: str
    sentence: str
    standing: bool


@dataclass(frozen=True, slots=True)
class _Forms:
    """Patterns of some languages, for folded sentences."""

    before: re.Pattern[str]
    standing: re.Pattern[str]
    after: re.Pattern[str] | None
    not_facts: re.Pattern[str]


def sentences(text: str) -> list[str]:
    """Split a text into sentences, at ends of lines and of sentences."""
    found: list[str] = []
    for piece in _SENTENCE.split(text):
        if found and _SHORT_WORD.search(found[-1]) and f"{found[-1]} {piece}" in text:
            found[-1] = f"{found[-1]} {piece}"
        else:
            found.append(piece)
    return [piece.strip() for piece in found if piece.strip()]


def explicit_requests(text: str, languages: Sequence[Language]) -> list[ExplicitRequest]:
    """Return what the text asks to remember, in order."""
    forms = _forms(tuple(languages))
    found = (_request(sentence, forms) for sentence in sentences(text))
    return [request for request in found if request is not None]


def _request(sentence: str, forms: _Forms) -> ExplicitRequest | None:
    folded = fold(sentence)
    if forms.standing.match(folded) is not None:
        return _worth_keeping(_polished(sentence), sentence, forms, standing=True)
    found = forms.before.match(folded)
    if found is not None:
        polite = found["asking"] is not None
        if _ASKED.search(sentence) and not polite:
            return None
        return _worth_keeping(_polished(sentence[found.end() :]), sentence, forms, standing=False)
    ended = forms.after.search(folded) if forms.after is not None else None
    if ended is not None and not _ASKED.search(sentence):
        return _worth_keeping(_polished(sentence[: ended.start()]), sentence, forms, standing=False)
    return None


def _worth_keeping(content: str, sentence: str, forms: _Forms, *, standing: bool) -> ExplicitRequest | None:
    if len(tokens(content)) < FEWEST_WORDS or (not standing and forms.not_facts.match(fold(content))):
        return None
    return ExplicitRequest(content, sentence, standing)


def _polished(content: str) -> str:
    return content.strip().lstrip("-–—:：,，、. ").rstrip(_END).strip()


@cache
def _forms(languages: tuple[Language, ...]) -> _Forms:
    tables = [phrase_file(language)["capture"] for language in languages]
    spaced = [phrase_file(language)["time"].get("spaced", True) for language in languages]
    courtesy = _alternatives(tables, "courtesy", spaced)
    lead = rf"[\W_]*(?:(?:{courtesy})[\W_]*)*"
    head = rf"[\W_]*(?:(?:(?P<asking>{_ASKING})|{courtesy})[\W_]*)*"
    after = _suffixes(tables)
    return _Forms(
        before=re.compile(rf"{head}(?:{_alternatives(tables, 'before', spaced)})"),
        standing=re.compile(rf"{lead}(?:{_alternatives(tables, 'standing', spaced)})"),
        after=re.compile(rf"(?:{after})[\W_]*$") if after else None,
        not_facts=re.compile(rf"(?:{_alternatives(tables, 'not_facts', spaced)})"),
    )


def _alternatives(tables: Iterable[dict[str, list[str]]], key: str, spaced: Iterable[bool]) -> str:
    """Return an expression for the phrases, longest first; scripts without spaces have no ends of words."""
    phrases: dict[str, bool] = {}
    for table, words in zip(tables, spaced, strict=True):
        phrases |= {fold(phrase): words for phrase in table.get(key, ())}
    ordered = sorted(phrases, key=len, reverse=True)
    return "|".join(_pattern(phrase, words=phrases[phrase]) for phrase in ordered)


def _pattern(phrase: str, *, words: bool) -> str:
    spelled = re.escape(phrase).replace(r"\ ", r"[\s,]{1,3}").replace("'", "['’]")
    return spelled + (r"(?!\w)" if words and phrase[-1].isalnum() else "")


def _suffixes(tables: Iterable[dict[str, list[str]]]) -> str:
    phrases: Iterator[str] = (fold(phrase) for table in tables for phrase in table.get("after", ()))
    return "|".join(map(re.escape, sorted(set(phrases), key=len, reverse=True)))
