"""Greetings, thanks and acknowledgements: messages that consist of known phrases and of nothing else. Pure."""

from collections.abc import Sequence

from worker.text.lexicon import Lexicon, Phrase, PhraseKind, tokens

MOST_CHARS = 200
MOST_TOKENS = 60
"""Longer messages say something, whatever they are made of."""

MOST_WITH_NAME = 6
"""Most tokens of a greeting in which one unknown word may be a name ("moin Quill")."""

Kinds = frozenset[PhraseKind]


def small_talk(message: str, lexicon: Lexicon) -> Kinds:
    """The kinds of phrases that `message` consists of; empty when it says anything else, or nothing at all."""
    if len(message) > MOST_CHARS:
        return frozenset()
    words = tuple("#" if word.isdigit() else word for word in tokens(message))
    if not words or len(words) > MOST_TOKENS:
        return frozenset()
    nameable = len(words) <= MOST_WITH_NAME and "?" not in message and "？" not in message
    kinds = _covering(words, lexicon, nameable=nameable)
    return kinds if kinds - {PhraseKind.FILLER} else frozenset()


def _covering(words: Phrase, lexicon: Lexicon, *, nameable: bool) -> Kinds:
    """Kinds of the phrases that cover `words` without a gap, longer phrases preferred; empty where none do."""
    best: list[Kinds | None] = [None] * len(words) + [frozenset()]
    for start in range(len(words) - 1, -1, -1):
        for size in range(min(lexicon.longest, len(words) - start), 0, -1):
            phrase, rest = words[start : start + size], start + size
            if (kinds := lexicon.phrases.get(phrase)) is None:
                continue
            if best[rest] is None and nameable and phrase in lexicon.addressed and _is_name(words[rest : rest + 1]):
                rest += 1
            after = best[rest]
            if after is not None:
                best[start] = after | {_strongest(kinds)}
                break
    return best[0] or frozenset()


def _is_name(words: Sequence[str]) -> bool:
    return bool(words) and len(words[0]) > 1


def _strongest(kinds: Kinds) -> PhraseKind:
    """Of several kinds in several languages, the one that asks for most."""
    order = (
        PhraseKind.GO_AHEAD,
        PhraseKind.ASSENT,
        PhraseKind.ACKNOWLEDGEMENT,
        PhraseKind.THANKS,
        PhraseKind.GREETING,
        PhraseKind.FILLER,
    )
    return next(kind for kind in order if kind in kinds)


def is_go_ahead(kinds: Kinds, reply_to: str) -> bool:
    """Whether small talk of these `kinds` tells the agent to go on with what it proposed in `reply_to`.

    "Do it" does; "yes" and a thumb up do where `reply_to` asked something, and no thanks or greeting come with them.
    """
    if PhraseKind.GO_AHEAD in kinds:
        return True
    return PhraseKind.ASSENT in kinds and not kinds & {PhraseKind.THANKS, PhraseKind.GREETING} and _asks(reply_to)


def _asks(text: str) -> bool:
    return any(mark in text[-300:] for mark in "?？")
