"""Small talk: messages that consist only of greetings, thanks and acknowledgements."""

from worker.text.lexicon import Lexicon, Phrase, PhraseKind, tokens

MOST_CHARS = 200
MOST_TOKENS = 60
"""Longer messages are never small talk."""

MOST_WITH_NAME = 6
"""Maximum tokens of a greeting in which an unknown word may be a name ("moin Quill")."""

Kinds = frozenset[PhraseKind]
_ORDER = list(PhraseKind)


def small_talk(message: str, lexicon: Lexicon) -> Kinds:
    """Return the kinds of phrases that `message` consists of; empty if it contains anything else."""
    if len(message) > MOST_CHARS:
        return frozenset()
    words = tuple("#" if word.isdigit() else word for word in tokens(message))
    if not words or len(words) > MOST_TOKENS:
        return frozenset()
    nameable = len(words) <= MOST_WITH_NAME and "?" not in message and "？" not in message
    kinds = _covering(words, lexicon, nameable=nameable)
    return kinds if kinds - {PhraseKind.FILLER} else frozenset()


def _covering(words: Phrase, lexicon: Lexicon, *, nameable: bool) -> Kinds:
    """Return the kinds of phrases that cover `words` without a gap, preferring longer phrases; empty if none do."""
    best: list[Kinds | None] = [None] * len(words) + [frozenset()]
    for start in range(len(words) - 1, -1, -1):
        for size in range(min(lexicon.longest, len(words) - start), 0, -1):
            phrase, rest = words[start : start + size], start + size
            if (kinds := lexicon.phrases.get(phrase)) is None:
                continue
            may_name = nameable and phrase in lexicon.addressed and best[rest] is None
            if may_name and rest < len(words) and len(words[rest]) > 1:
                rest += 1
            after = best[rest]
            if after is not None:
                best[start] = after | {max(kinds, key=_ORDER.index)}
                break
    return best[0] or frozenset()


def is_go_ahead(kinds: Kinds, reply_to: str) -> bool:
    """Return whether small talk tells the agent to go ahead with what it proposed in `reply_to`.

    "Do it" always does. "Yes" or a thumbs up does so without thanks or greetings, if `reply_to` contains a question.
    """
    if PhraseKind.GO_AHEAD in kinds:
        return True
    asked = any(mark in reply_to[-300:] for mark in "?？")
    return asked and PhraseKind.ASSENT in kinds and not kinds & {PhraseKind.THANKS, PhraseKind.GREETING}
