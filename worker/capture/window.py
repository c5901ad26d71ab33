"""Choose the turns to read: new ones of the user as evidence, and what explains them. Pure."""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from hooks.contract import as_utc
from hooks.contract.capture import ConversationTurn
from worker.domain.capture import CaptureSource, WindowTurn
from worker.query.noise import separated, written
from worker.text.excerpts import shortened
from worker.text.invisible import without_invisible
from worker.text.tokens import estimate_tokens

USER, ASSISTANT = "user", "assistant"
MOST_WINDOW = 12
"""Maximum new turns of the user that are read together."""

MOST_TOKENS = 3_000
OLDER = 2
"""Turns before the new ones, which only explain them."""

ASSISTANT_CHARS = 300
PASTE_CHARS = 1_200
"""Characters of a paragraph that nobody types."""

LONG_TURN = 800
PASTE_SHARE = 0.6
"""Share of a long turn that one paragraph has if it was pasted."""

_FENCED = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"^[ \t]{0,8}(?:>|\|)[^\n]*$", re.MULTILINE)
_FOREIGN_LINE = re.compile(
    r"^[ \t]{0,8}(?:[*_#\[]{0,3})(?:from|to|cc|subject|sent|date|reply-to|von|an|betreff|gesendet|datum|de|para|asunto"
    r"|à|objet|oggetto|da|user|human|assistant|system|ai|bot|agent|benutzer|nutzer|assistent)"
    r"(?:[*_\]]{0,3})[ \t]?[:：](?:\s|$)"
    r"|^[ \t]{0,8}(?:-{3,}|={3,}|_{3,}|<{3,}|>{3,}|#{3,})[ \t\w-]{0,60}$"
    r"|^[ \t]{0,8}<\/?[\w|!][^<>\n]{0,80}>[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
"""Where the words of others begin: heads of mails, labels of roles, rules, and tags alone on their line."""

_HIDDEN = re.compile(r"^.*\w[\u200b\u2060\ufeff\u00ad]+\w.*$", re.MULTILINE)
"""A line with invisible characters inside its words, which people do not type."""

_SPOKEN = re.compile(r"[\"“„«「『](?=\S)[^\"“”„«»「」『』]{50,}[\"”“»」』]")
"""A long quotation."""

_INTRODUCING = re.compile(
    r"^[^\n]{0,200}\b(?:e-?mails?|mails?|message|letter|page|article|log|logs|output|readme|transcript|file|doc|docs|document"
    r"|website|text|post|ticket|issue|comment|review|error|says|said|wrote|writes|reads|nachricht|brief|seite|artikel|ausgabe"
    r"|datei|dokument|protokoll|schreibt|schrieb|sagt|steht|translate|summari[sz]e|übersetze?|zusammen|lettre|fichier|courriel"
    r"|traduis|résume|dit|écrit|correo|mensaje|archivo|traduce|resume|dice|escribió|mensagem|arquivo|ficheiro|traduz|diz|escreveu"
    r"|messaggio|lettera|traduci|riassumi|scrive)\b[^\n]{0,80}[:：][ \t]*(?=\n\s*\S)",
    re.MULTILINE | re.IGNORECASE,
)
"""A line that introduces the words of others."""


@dataclass(frozen=True, slots=True)
class Window:
    """Turns that are read together."""

    turns: tuple[WindowTurn, ...]

    @property
    def evidence(self) -> tuple[WindowTurn, ...]:
        return tuple(turn for turn in self.turns if turn.evidence)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(turn.key for turn in self.evidence)


def turn_key(source: CaptureSource, turn: ConversationTurn) -> str:
    """Return what identifies a turn: forks of a session copy turns with their times, and count once."""
    place = [] if turn.at is not None else [source.session_id, source.agent_id, turn.id]
    at = as_utc(turn.at).isoformat() if turn.at is not None else None
    parts = json.dumps([source.user, turn.role, at, turn.text, *place])
    return hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()[:20]


def typed(text: str, patterns: Sequence[str] = ()) -> str:
    """Return what a person typed: without blocks, notices, code, quotes, mails and pastes."""
    plain = without_invisible(_HIDDEN.sub(_marked, written(text).replace("\r\n", "\n")))
    plain = _SPOKEN.sub(_marked, plain)
    plain = _QUOTED.sub(" ", _FENCED.sub(_marked, plain))
    foreign = _FOREIGN_LINE.search(plain)
    if foreign is not None:
        plain = plain[: foreign.start()] + _pasted(len(plain) - foreign.start())
    parts = re.split(r"\n[ \t]*\n", _without_introduced(plain))
    paragraphs = [_without_paste(part, len(plain)) for part in parts]
    return separated("\n\n".join(paragraphs), patterns).prose


def windows(
    source: CaptureSource, turns: Sequence[ConversationTurn], captured: Collection[str], patterns: Sequence[str] = ()
) -> tuple[Window, ...]:
    """Return the windows that cover every new turn of the user; none if there is none. Other turns are not read."""
    spoken = [turn for turn in turns if turn.role in (USER, ASSISTANT)]
    keys = [turn_key(source, turn) for turn in spoken]
    new = [
        place
        for place, turn in enumerate(spoken)
        if turn.role == USER and not turn.context and keys[place] not in captured
    ]
    if not new:
        return ()

    def read(place: int) -> WindowTurn:
        return _read(spoken[place], keys[place], patterns, evidence=place in evidence)

    evidence = frozenset(new)
    before = (turn for turn in map(read, range(new[0] - 1, -1, -1)) if turn.text)
    older = tuple(islice(before, OLDER))[::-1]
    later = (turn for turn in map(read, range(new[0], new[-1] + 1)) if turn.text or turn.evidence)
    return tuple(_split([*older, *later]))


def _read(turn: ConversationTurn, key: str, patterns: Sequence[str], *, evidence: bool) -> WindowTurn:
    text = typed(turn.text, patterns)
    return WindowTurn(
        key=key,
        id=turn.id or key,
        role=turn.role,
        text=text if turn.role == USER else shortened(" ".join(text.split()), ASSISTANT_CHARS),
        at=turn.at,
        evidence=evidence,
    )


def _split(turns: Sequence[WindowTurn]) -> Iterator[Window]:
    start, count, size = 0, 0, 0
    for place, turn in enumerate(turns):
        cost = estimate_tokens(turn.text)
        if count and (count == MOST_WINDOW or size + cost > MOST_TOKENS) and turn.role == USER:
            yield _window(turns, start, place)
            start, count, size = place, 0, 0
        count, size = count + turn.evidence, size + cost
    if count:
        yield _window(turns, start, len(turns))


def _window(turns: Sequence[WindowTurn], start: int, end: int) -> Window:
    """Return a window from the turns before its first new one to its last new one."""
    new = [place for place in range(start, end) if turns[place].evidence]
    first = max(0, new[0] - OLDER)
    older = [_as_context(turn) for turn in turns[first : new[0]]]
    return Window((*older, *turns[new[0] : new[-1] + 1]))


def _as_context(turn: WindowTurn) -> WindowTurn:
    return WindowTurn(turn.key, turn.id, turn.role, turn.text, turn.at, evidence=False)


def _marked(match: re.Match[str]) -> str:
    return _pasted(len(match.group()))


def _pasted(length: int) -> str:
    return f"[pasted, {length} characters]"


def _without_introduced(text: str) -> str:
    """Return the text up to a line that introduces the words of others ("the mail says:"), and a mark for the rest."""
    found = _INTRODUCING.search(text)
    return text if found is None else text[: found.end()] + "\n" + _pasted(len(text) - found.end())


def _without_paste(paragraph: str, whole: int) -> str:
    long_share = whole > LONG_TURN and len(paragraph) > PASTE_SHARE * whole and len(paragraph) < whole
    return _pasted(len(paragraph)) if len(paragraph) > PASTE_CHARS or long_share else paragraph
