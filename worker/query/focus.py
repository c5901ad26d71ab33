"""What is searched with: the message without what surrounds it, and its subject where it names none. Pure.

A message that stands alone is searched with alone; earlier turns would only blur it. One that says too little by
itself ("why that instead of sessions?", "yes, do it") borrows its subject from the task and the last turns.
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
"""Most content tokens of a message that says too little by itself."""

VAGUE_TOKENS = 3
"""Most content tokens of a message that says too little when it points at something said before ("that one")."""

REPLY_TOKENS = 5
"""Most content tokens of a message that says too little when it goes on from something ("and for february?")."""

FEW_TOKENS = 3
"""Content tokens under which prose beside a paste, or an earlier turn, is not enough to search with."""

LONG = 400
"""Characters from which the questions of a text are put first: embedders cut long queries."""

SENTENCE = 300
"""Most characters of one sentence that is put first."""

PASTED = 200
"""Most characters of pasted error lines in a query that has prose."""

PASTED_ALONE = 600
"""Most characters of a paste that is searched with for want of prose."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


@dataclass(frozen=True, slots=True)
class Focus:
    """What is searched with.

    `borrowed` says that `query` holds a subject from earlier turns. `alternatives` are further queries that may be
    worth a search of their own, likeliest first: for a borrowed query the message alone, for a message that stands
    alone and yet points at something said before the message with that.
    """

    query: str
    borrowed: bool = False
    alternatives: tuple[str, ...] = ()


def focus(request: InjectionRequest, config: InjectionConfig) -> Focus:
    """The query of a request, at most `query_max_chars` long; empty when neither message nor task says anything."""
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


def focused_query(request: InjectionRequest, config: InjectionConfig) -> str:
    """The query of `focus`."""
    return focus(request, config).query


def says_too_little(text: str, known: Lexicon) -> bool:
    """Whether `text` names no subject: hardly a word with a meaning, or few in a text that points or goes back."""
    if len(text) > LONG:
        return False
    found = wording(text, known)
    most = REPLY_TOKENS if found.goes_on else VAGUE_TOKENS if found.refers else STUB_TOKENS
    return found.content <= most


def _points_back(text: str, known: Lexicon) -> bool:
    if len(text) > LONG:
        return False
    found = wording(text, known)
    return found.refers or found.goes_on


def bounded(text: str, limit: int) -> str:
    """`text` on one line, in at most `limit` characters.

    A long text gets its questions, or else its first and last sentence, in front; when it does not fit, the end of
    the rest is kept.
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
    """What `raw` asks: its prose and the telling lines of what was pasted."""
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
    """`text` and `more` in at most `limit` characters, half of them for `more` at most."""
    if not more:
        return bounded(text, limit)
    added = more[: limit // 2].strip()
    return f"{bounded(text, limit - len(added) - 1)} {added}"


def _earlier(request: InjectionRequest, config: InjectionConfig, known: Lexicon) -> str:
    """What the last turns are about, in at most `query_context_chars` characters."""
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
