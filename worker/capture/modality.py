"""What is said, but is no lasting fact: questions, fiction, examples, and wishes for one answer. Pure."""

import re
from collections.abc import Sequence
from functools import cache

from worker.domain.capture import DropReason
from worker.domain.kinds import Language
from worker.text.lexicon import fold, phrase_file

from .explicit import sentences

_IRONY = re.compile(r"(?:^|\s)/s(?:\s|$)|\bjk\b|\blol\b|\bnot!\s*$|\U0001f644|\U0001f643|;-?\)", re.IGNORECASE)
_SPOKEN = re.compile(r"[\"“„«「『][^\"”“»」』]{12,}[\"”“»」』]")


def not_lasting(sentence: str, languages: Sequence[Language]) -> DropReason | None:
    """Return why a sentence that was asked to be remembered is not: it holds for one answer, or is not meant."""
    folded = fold(sentence)
    if _phrases(tuple(languages), "once").search(folded):
        return DropReason.ONLY_ONCE
    return DropReason.NOT_A_FACT if _IRONY.search(sentence) else None


def is_made_up(turn: str, languages: Sequence[Language]) -> bool:
    """Return whether a sentence of the turn begins a story or a game."""
    fiction = _phrases(tuple(languages), "fiction")
    return any(fiction.match(fold(sentence)) is not None for sentence in sentences(turn))


def not_a_fact(span: str, languages: Sequence[Language]) -> DropReason | None:
    """Return why the words that a model read as a fact are none."""
    reason = not_lasting(span, languages)
    if reason is not None:
        return reason
    if span.rstrip().endswith(("?", "？")) or _SPOKEN.search(span):
        return DropReason.NOT_A_FACT
    return DropReason.NOT_A_FACT if _phrases(tuple(languages), "unreal").search(fold(span)) else None


@cache
def _phrases(languages: tuple[Language, ...], key: str) -> re.Pattern[str]:
    parts: list[str] = []
    for language in languages:
        spaced = phrase_file(language)["time"].get("spaced", True)
        for phrase in phrase_file(language)["capture"][key]:
            spelled = re.escape(fold(phrase)).replace(r"\ ", r"\s{1,3}").replace("'", "['’]")
            parts.append(rf"(?<!\w){spelled}(?!\w)" if spaced else spelled)
    return re.compile("|".join(sorted(parts, key=len, reverse=True)))
