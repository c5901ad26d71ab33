"""Characters that nobody sees, and positions in a text without them."""

import re
import unicodedata

DEFAULT_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Code points that Unicode says to show as nothing, as the inside of a character class."""

_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_JOINERS = "\u200c\u200d"
_INVISIBLE = re.compile(f"[{DEFAULT_IGNORABLE}]")
_NEEDLESS = re.compile(
    rf"(?![{_SELECTORS}{_JOINERS}])[{DEFAULT_IGNORABLE}]"
    rf"|(?:(?<=[\x00-\x7f{_SELECTORS}])|\A)[{_SELECTORS}]|(?:(?<=[\x00-\x7f{_JOINERS}])|\A)[{_JOINERS}]"
)
_BLANK_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
_BLANK_BRAILLE = "\u2800"


def without_invisible(text: str) -> str:
    """Return `text` without invisible characters."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def without_needless(text: str) -> str:
    """Return `text` without the invisible characters that change nothing.

    Joiners and variation selectors stay where emoji, Persian, Indic scripts or names in Han need them.
    """
    return text if text.isascii() else _NEEDLESS.sub("", text)


def visible_positions(text: str) -> list[int]:
    """Return the position in `text` of each visible character, and of its end."""
    return [position for position, character in enumerate(text) if not _INVISIBLE.match(character)] + [len(text)]


def is_blank(text: str) -> bool:
    """Return whether there is nothing to see in `text`."""
    return all(
        unicodedata.category(character) in _BLANK_CATEGORIES or character == _BLANK_BRAILLE
        for character in without_invisible(text)
    )
