"""Features of what a message asks for (a person, a place, a time) and whether a memory holds such a thing. Pure."""

import re
from collections.abc import Sequence

from .columns import Column, column, same
from .matching import NAME

_TIME = re.compile(
    r"(?i)\d{1,2}[:.h]\d{2}|\d{1,2}\s?(?:am|pm|uhr)|\b(?:19|20)\d{2}\b|\d{1,2}[./-]\d{1,2}|"
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*\b|"
    r"\b(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|"
    r"dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo|lunedì|martedì|mercoledì|giovedì|venerdì|sabato|"
    r"domenica|maandag|dinsdag|woensdag|donderdag|vrijdag|zaterdag|zondag|segunda|terça|quarta|quinta|sexta)s?\b|"
    r"\b(?:daily|weekly|monthly|every|noon|midnight|morning|evening|night|week|month|year|days?|hours?|minutes?)\b|"
    r"[月日時]"
)
_PLACE = re.compile(
    r"(?i)\b(?:in|at|on|under|behind|next to|near|from|to|inside|above|below|street|road|room|floor|shelf|drawer|"
    r"cupboard|folder|path|port|url|lives?|office|address|im|auf|bei|unter|hinter|neben|dans|sur|sous|chez|en|sobre|nel|"
    r"sotto|em|no|na|w|na|op|onder)\b|/\w+|https?:|[でにの]"
)
_AMOUNT = re.compile(r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|half|twice|once|double)\b")
_RULE = re.compile(
    r"(?i)\b(?:never|always|only|must|may|not|don't|no|allowed|rule|policy|until|before|after|without|nie|immer|nur|"
    r"jamais|toujours|nunca|siempre|mai|sempre|nooit|altijd|nigdy|zawsze)\b"
)

ASKED = {
    "who": re.compile(
        r"(?i)\b(?:who|whom|whose|wer|wen|wem|qui|quién|quien|chi|quem|wie is|kto|kogo)\b|誰|だれ|"
        r"which (?:person|doctor|one of)"
    ),
    "where": re.compile(r"(?i)\b(?:where|wo|wohin|où|dónde|donde|dove|onde|waar|gdzie|address|path|folder)\b|どこ"),
    "when": re.compile(
        r"(?i)\b(?:when|what time|what day|which day|until when|wann|quand|cuándo|cuando|quando|wanneer|kiedy|date|"
        r"deadline|birthday|due|next|hours|open)\b|いつ|何時"
    ),
    "amount": re.compile(
        r"(?i)\b(?:how (?:many|much|long|often|old|big|far|high|late|soon)|wie (?:viele?|lange|oft|hoch)|combien|"
        r"cuánt\w*|quant\w*|hoeveel|ile|number|size|price|rate|cost|limit|budget|phone|pin|code)\b|いくつ|何"
    ),
    "may": re.compile(
        r"(?i)\b(?:may i|can i|can we|should i|should we|am i|is it ok|allowed|do we|do i|darf|dürfen|soll|puis-je|"
        r"peut-on|puedo|podemos|posso|possiamo|mag ik|czy)\b"
    ),
    "what": re.compile(
        r"(?i)\b(?:what|what's|whats|which|was|welche\w*|quel\w*|qué|cuál|che|quale|qual|o que|wat|welke|co|"
        r"jaki\w*)\b|何|どの"
    ),
}
"""Patterns of a message that asks for a kind of thing."""

HELD = {"who": NAME, "where": _PLACE, "when": _TIME, "amount": _AMOUNT, "may": _RULE}
"""Patterns of a memory that holds such a thing."""


def answers(message: str, contents: Sequence[str]) -> dict[str, Column]:
    """Return what the message asks for, and per memory 1 or -1 for whether it holds such a thing, 0 if not asked."""
    columns: dict[str, Column] = {}
    for kind, pattern in ASKED.items():
        asks = float(bool(pattern.search(message)))
        columns[f"q_{kind}"] = same(asks, len(contents))
        if kind in HELD and asks:
            columns[f"a_{kind}"] = column(1.0 if HELD[kind].search(text) else -1.0 for text in contents)
        elif kind in HELD:
            columns[f"a_{kind}"] = same(0.0, len(contents))
    return columns
