"""Enumerations shared by settings, search and receipts."""

from enum import StrEnum


class SearchKind(StrEnum):
    """How a memory was found."""

    MESSAGE = "message"
    WORDING = "wording"
    DATED = "dated"
    NAMED = "named"
    LINKED = "linked"
    SUCCESSOR = "successor"
    PINNED = "pinned"


class Budget(StrEnum):
    """How much to search: the message only, all searches, or all searches with more candidates and message parts."""

    LOW = "low"
    MID = "mid"
    HIGH = "high"


class RelevanceProfile(StrEnum):
    """How much the relevance model injects: cautious avoids irrelevant memories, generous avoids missing any."""

    CAUTIOUS = "cautious"
    BALANCED = "balanced"
    GENEROUS = "generous"

    @classmethod
    def _missing_(cls, value: object) -> "RelevanceProfile | None":
        """Accept the values of earlier versions."""
        return {"clean98": cls.CAUTIOUS, "recall": cls.GENEROUS}.get(str(value))


class ReceiptKeep(StrEnum):
    """What a receipt keeps: everything; everything but texts; or only ids, numbers and reasons."""

    EVERYTHING = "everything"
    NO_TEXTS = "no_texts"
    NUMBERS = "numbers"


class ChannelMemories(StrEnum):
    """Where a memory is told that a channel has, not a user: in that channel, or everywhere."""

    CHANNEL = "channel"
    EVERYWHERE = "everywhere"


class SortKey(StrEnum):
    """Sort order: newest `created_at` first (unknown last), or highest importance first."""

    RECENT = "recent"
    IMPORTANCE = "importance"


class Language(StrEnum):
    """Languages with known phrases and time expressions."""

    ENGLISH = "en"
    FRENCH = "fr"
    GERMAN = "de"
    SPANISH = "es"
    PORTUGUESE = "pt"
    ITALIAN = "it"
    JAPANESE = "ja"
    CHINESE = "zh"
    KOREAN = "ko"
