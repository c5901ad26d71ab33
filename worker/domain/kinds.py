"""What a recall distinguishes: how much it may spend, how a memory was found, and orders without a query."""

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
    """How much a recall may spend: the message alone; every leg; or every leg, wider, and each part of the message."""

    LOW = "low"
    MID = "mid"
    HIGH = "high"


class RelevanceProfile(StrEnum):
    """How much the relevance model injects: hardly ever anything needless, in between, or more of what is needed."""

    CAUTIOUS = "cautious"
    BALANCED = "balanced"
    GENEROUS = "generous"

    @classmethod
    def _missing_(cls, value: object) -> "RelevanceProfile | None":
        """Accept the values of earlier versions."""
        return {"clean98": cls.CAUTIOUS, "recall": cls.GENEROUS}.get(str(value))


class ReceiptKeep(StrEnum):
    """What a receipt keeps: everything; no text of anybody; or ids, numbers and named reasons alone."""

    EVERYTHING = "everything"
    NO_TEXTS = "no_texts"
    NUMBERS = "numbers"


class SortKey(StrEnum):
    """What the best come first by: the latest `created_at` (unknown ones last), or the highest importance."""

    RECENT = "recent"
    IMPORTANCE = "importance"


class Language(StrEnum):
    """Languages whose phrases and time expressions are known."""

    ENGLISH = "en"
    FRENCH = "fr"
    GERMAN = "de"
    SPANISH = "es"
    PORTUGUESE = "pt"
    ITALIAN = "it"
    JAPANESE = "ja"
    CHINESE = "zh"
    KOREAN = "ko"
