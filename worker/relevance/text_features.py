"""Features of a single text: the kind of task or memory, and whether it is English. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache

from worker.domain.memory import MEMORIES_CACHED
from worker.text.wording import Marks, marks

MOST_CHARS = 1200
"""Characters read of a message: a third from its start, the rest from its end."""

QUESTION = re.compile(
    r"(?i)^\W*(what|who|whom|whose|when|where|why|how|which|is|are|was|were|do|does|did|can|could|should|has|have|will|"
    r"qui|que|quoi|quel\w*|quand|où|comment|combien|pourquoi|est-ce|was|wer|wie|wann|wo|warum|welche\w*|kann|"
    r"qué|quién|cuándo|dónde|cómo|cuánto|hva|hvem|når|hvor|hvordan|che|chi|quando|dove|come|quanto|kdo|kdy|jak|co)\b"
)
OURS = re.compile(
    r"(?i)\b(we|us|our|ours|let's|nous|notre|nos|on|wir|uns|unser\w*|nosotros|nuestr\w*|nós|nosso\w*|noi|nostr\w*)\b"
)
MINE = re.compile(
    r"(?i)\b(i|i'm|i'll|i've|me|my|mine|je|j'\w*|moi|mon|ma|mes|ich|mir|mich|mein\w*|yo|mi|mis|eu|meu|minha)\b"
)
MAKE = re.compile(
    r"(?i)\b(write|draft|prepare|plan|book|send|reply|answer|make|set|schedule|order|pay|invoice|summari[sz]e|compare|"
    r"rédige|prépare|réponds|écris|schreib\w*|bereite|antworte|plane|escribe|prepara|"
    r"escreve|scrivi|quote|brief|review)\b"
)
TEXTBOOK = re.compile(
    r"(?i)\b(explain|definition|define|meaning|mean|translate|proofread|rephrase|rename|regex|synonym\w*|difference|"
    r"convert|formula|syntax|docstring|haiku|joke|limerick|poem|typo\w*|spell\w*|grammar|format|pronounce\w*|"
    r"traduis\w*|explique\w*|différence|corrige\w*|übersetz\w*|erklär\w*|unterschied|traduce|traduz|traduci|ideas?)\b"
)
RULE = re.compile(
    r"(?i)\b(never|always|only|must|don't|do not|not|wants?|prefers?|likes?|hates?|no longer|instead|from now|since|"
    r"jamais|toujours|seulement|doit|nie|immer|nur|muss|nunca|siempre|sempre|mai|solo|agreed|rule|policy|allerg\w*)\b"
)
PLANTED = re.compile(
    r"(?i)(</?\s*(memory|system|instruction|context)|\b(system|assistant|ai|agents?|assistants?|aux assistants)\s*"
    r"(notice|note|tools?|automatiques)?\s*[:>\]]|ignore (earlier|prior|previous|all)|do(n't| not) mention|"
    r"new (rule|system prompt|standing order)|automated (assistants|reviewers)|note to (ai|assistant)|white on white|"
    r"without (asking|telling|review)|assistants? (reading|must)|\bmark(ed)? as verified)"
)
TOLD = re.compile(
    r"(?i)^(saved (from|on)|imported|text (found|pulled|layer|at|of|in|from)|pasted|copied|scanned|forwarded|"
    r"mail |email |client upload|footer|comment found|application text|external|bottom of|readme|"
    r"run note|note from|portal message|ticket \d+|sponsor pdf|scraped|from a )"
)
WORD = re.compile(r"\w+")
UNSPACED_SCRIPTS = re.compile("[\u0400-\u04ff\u0600-\u06ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def clipped(text: str) -> str:
    """Shorten a long text to its start and end."""
    if len(text) <= MOST_CHARS:
        return text
    third = MOST_CHARS // 3
    return f"{text[:third]} ... {text[-2 * third :]}"


@lru_cache(maxsize=8192)
def foreign(text: str) -> float:
    """Return 1 - the share of English function words among the words of a text."""
    words = [word.casefold() for word in WORD.findall(text[:MOST_CHARS]) if not word.isdigit()]
    return 1.0 - sum(word in _ENGLISH for word in words) / max(1, len(words))


_ENGLISH_WORDS = """
the a an of to in on for and or is are was be it this that with at by from as i you we
he she they my our your do does did can will would should not no so if but have has had what which who how
when where why please just
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())


@dataclass(frozen=True, slots=True)
class Note:
    """Features of a memory's text."""

    chars: float
    rule: float
    planted: float
    told: float
    foreign: float
    marks: Marks


@lru_cache(maxsize=MEMORIES_CACHED)
def note(content: str) -> Note:
    return Note(
        chars=float(len(content)),
        rule=float(len(RULE.findall(content))),
        planted=float(len(PLANTED.findall(content))),
        told=float(bool(TOLD.search(content))),
        foreign=foreign(content),
        marks=marks(content),
    )
