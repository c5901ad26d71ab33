"""Text for a terminal: nothing in it can move the cursor, set a title, fill the clipboard or reverse a line."""

import re

_RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
"""Control characters except tab and line feed, changes of direction, further line separators, and surrogates."""

_PICTURES = 0x2400
_DELETE_PICTURE = "\u2421"


def for_terminal(text: str) -> str:
    """Return `text` with every control character replaced by one that shows it."""
    return _RAW.sub(lambda match: _shown(ord(match.group())), text)


def _shown(code: int) -> str:
    if code < 0x20:
        return chr(_PICTURES + code)
    return _DELETE_PICTURE if code == 0x7F else "\N{REPLACEMENT CHARACTER}"
