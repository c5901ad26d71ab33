"""Search queries from a request: the cleaned message, with earlier turns if it is unclear on its own.

A clear message is searched alone, because earlier turns would only add noise. An unclear one ("why that instead of
sessions?", "yes, do it") gets its subject from the task and the last turns.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hooks.contract import InjectionRequest
from worker.settings.injection import Enrichment, InjectionConfig
from worker.text.lexicon import Lexicon, content_tokens, lexicon, tokens, wording

from .noise import CleanedMessage, separated, telling_lines
from .small_talk import small_talk

STUB_TOKENS = 2
"""Maximum content words of an unclear message."""

VAGUE_TOKENS = 3
"""Maximum content words of an unclear message that refers to something said before ("that one")."""

REPLY_TOKENS = 5
"""Maximum content words of an unclear follow-up ("and for february?")."""

FEW_TOKENS = 3
"""Content words below which prose next to pasted text, or an earlier turn, is not enough for a query."""

LONG = 400
"""Characters above which the questions of a text are moved to the front: embedders truncate long queries."""

SENTENCE = 300
"""Maximum characters of a sentence that is moved to the front."""

PASTED = 200
"""Maximum characters of pasted error lines in a query with prose."""

PASTED_ALONE = 600
"""Maximum characters of pasted text in a query without prose."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


@dataclass(frozen=True, slots=True)
class Focus:
    """A query; `borrowed` means that it contains text from earlier turns.

    `alternatives` are further queries to search with, best first: the message alone, or with earlier turns.
    """

    query: str
    borrowed: bool = False
    alternatives: tuple[str, ...] = ()


def focus(request: InjectionRequest, config: InjectionConfig) -> Focus:
    """Return the query of a request, at most `query_max_chars` long; empty if message and task are empty."""
    limit, known = config.query_max_chars, lexicon(config.languages)
    message, task = (_text(raw, config, known) for raw in (request.message, request.task_description or ""))
    text = message or task
    alone = bounded(text, limit)
    more = bounded(task, SENTENCE) if config.query_task and tokens(task) != tokens(text) else ""
    whole = _joined(text, more, limit)
    others = (alone,) if more else ()
    if config.query_enrichment is Enrichment.OFF or not alone:
        return Focus(whole, alternatives=others)
    subject = " ".join(part for part in (more, _earlier(request, config, known)) if part)
    if subject == more:
        return Focus(whole, alternatives=others)
    enriched = _joined(text, subject, limit)
    if config.query_enrichment is Enrichment.ALWAYS or says_too_little(alone, known):
        return Focus(enriched, borrowed=True, alternatives=(alone,))
    return Focus(whole, alternatives=(*others, enriched) if _points_back(alone, known) else others)


def says_too_little(text: str, known: Lexicon) -> bool:
    """Return whether `text` is unclear on its own: it has few content words, or refers to something said before."""
    if len(text) > LONG:
        return False
    found = wording(text, known)
    most = REPLY_TOKENS if found.goes_on else VAGUE_TOKENS if found.refers else STUB_TOKENS
    return found.content <= most


def stands_alone(text: str, known: Lexicon) -> bool:
    """Return whether `text` is clear without earlier turns."""
    return not (says_too_little(text, known) or _points_back(text, known))


def _points_back(text: str, known: Lexicon) -> bool:
    found = wording(text, known) if len(text) <= LONG else None
    return found is not None and (found.refers or found.goes_on)


def bounded(text: str, limit: int) -> str:
    """Return `text` on one line of at most `limit` characters.

    A long text begins with its questions and its last and first sentence; of the rest, the end is kept.
    """
    line = " ".join(text.split())
    if len(line) <= min(LONG, limit):
        return line
    lead = " ".join(dict.fromkeys(_leading(text)))[:limit].strip()
    room = limit - len(lead) - 1
    return f"{lead} {line[-room:].strip()}" if room > 0 else lead


def _leading(text: str) -> Iterator[str]:
    sentences = [" ".join(part.split()) for part in _SENTENCE_END.split(text) if part.strip()]
    asked = [sentence for sentence in sentences if sentence.endswith(("?", "？"))]
    for sentence in [*asked[-1:], sentences[-1], sentences[0], *asked[:1]]:
        yield sentence[-SENTENCE:] if sentence is sentences[-1] else sentence[:SENTENCE]


def _text(raw: str, config: InjectionConfig, known: Lexicon) -> str:
    """Return the prose of `raw` and the error lines of pasted text."""
    parts = separated(raw, config.strip_patterns)
    if not parts.pasted:
        return parts.prose
    if content_tokens(parts.prose[:2000], known) < FEW_TOKENS:
        return _with_paste(parts)
    return f"{parts.prose}\n{telling_lines(parts.pasted, PASTED)}".strip()


def _with_paste(parts: CleanedMessage) -> str:
    telling = telling_lines(parts.pasted, PASTED_ALONE)
    tail = " ".join(" ".join(parts.pasted)[-PASTED_ALONE:].split())
    return "\n".join(part for part in (parts.prose, telling, tail) if part)


def _joined(text: str, more: str, limit: int) -> str:
    """Join `text` and `more` in at most `limit` characters, at most half of them for `more`."""
    if not more:
        return bounded(text, limit)
    added = more[: limit // 2].strip()
    return f"{bounded(text, limit - len(added) - 1)} {added}"


def _earlier(request: InjectionRequest, config: InjectionConfig, known: Lexicon) -> str:
    """Return the last meaningful turns in at most `query_context_chars` characters, newest first."""
    found: list[str] = []
    content, answered = 0, False
    for turn in reversed(request.recent_messages[-6:]):
        said = bounded(_text(turn.content, config, known), SENTENCE)
        if not said or small_talk(said, known):
            continue
        found.append(said)
        content += content_tokens(said, known) if turn.role == "user" else 0
        answered = answered or turn.role != "user"
        if answered and content >= FEW_TOKENS:
            break
    return " ".join(found)[: config.query_context_chars].strip()
