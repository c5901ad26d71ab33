"""Bounds for requests: what is longer than any search reads does not travel through the queue. Fast to load."""

import unicodedata

MOST_BYTES = 262_144
"""Size from which a request is shortened before it is sent."""

MESSAGE_HEAD = 8_000
MESSAGE_TAIL = 24_000
"""Characters kept at the beginning and the end of a longer message; a search reads no others."""

MOST_RECENT = 20
"""Earlier messages that are kept, the latest ones."""

RECENT_HEAD = 1_000
RECENT_TAIL = 3_000
"""Characters kept of a longer earlier message."""

LIMITS = ((MESSAGE_HEAD, MESSAGE_TAIL, 50), (500, 1_500, 8))
"""Characters at both ends of a text, and entries of a list, that are kept at first, and if that is still too long."""

MOST_FIELDS = 100
MOST_DEPTH = 5


LONGEST_GRAPHEME = 64
"""Characters that a cut moves at most to keep a grapheme whole."""

_JOINER = "\u200d"
_EXTENDING = ("\U0001f3fb", "\U0001f3ff"), ("\U000e0020", "\U000e007f"), ("\u1160", "\u11ff")
"""Skin tones, letters of flags, and later parts of Korean syllables, which are no marks."""


def clipped(text: str, head: int = MESSAGE_HEAD, tail: int = MESSAGE_TAIL) -> str:
    """Return `text` without the middle of a longer one, and without half a grapheme at either cut."""
    if len(text) <= head + tail:
        return text
    end, start = head, len(text) - tail + 1
    while end > head - LONGEST_GRAPHEME and _joins(text, end):
        end -= 1
    while start < len(text) - tail + LONGEST_GRAPHEME and _joins(text, start):
        start += 1
    return f"{text[:end]}\n{text[start:]}"


def _joins(text: str, place: int) -> bool:
    """Return whether the characters around `place` belong to one grapheme, by the rules that need no tables."""
    if not 0 < place < len(text) or text[place].isascii():
        return False
    before, after = text[place - 1], text[place]
    if after == _JOINER or before == _JOINER or unicodedata.category(after).startswith("M"):
        return True
    if any(first <= after <= last for first, last in _EXTENDING):
        return True
    return _is_flag(after) and _flags_before(text, place) % 2 == 1


def _is_flag(letter: str) -> bool:
    return "\U0001f1e6" <= letter <= "\U0001f1ff"


def _flags_before(text: str, place: int) -> int:
    first = place
    while first > 0 and place - first < MESSAGE_HEAD and _is_flag(text[first - 1]):
        first -= 1
    return place - first


def bounded(raw: bytes) -> bytes:
    """Return a JSON object shortened to a sensible size; `raw` itself if it is short or not JSON."""
    if len(raw) <= MOST_BYTES:
        return raw
    import json  # slow to load, and rarely needed  # noqa: PLC0415

    try:
        value, data = json.loads(raw), raw
        for limits in LIMITS:
            if len(data) > MOST_BYTES:
                value = _shorter(value, limits)
                data = json.dumps(value, separators=(",", ":")).encode("ascii")
    except (ValueError, RecursionError):
        return raw
    return data


def _shorter(value: object, limits: "tuple[int, int, int]", depth: int = 0, name: str = "") -> object:
    head, tail, entries = limits
    if isinstance(value, str):
        return clipped(value, head, tail)
    if depth >= MOST_DEPTH:
        return value if isinstance(value, int | float | None) else None
    if isinstance(value, list) and name == "recent_messages":
        limits = (min(head, RECENT_HEAD), min(tail, RECENT_TAIL), entries)
        return [_shorter(part, limits, depth + 1) for part in value[-MOST_RECENT:]]
    if isinstance(value, list):
        return [_shorter(part, limits, depth + 1) for part in value[:entries]]
    if isinstance(value, dict):
        pairs = list(value.items())[:MOST_FIELDS]
        return {key[:200]: _shorter(part, limits, depth + 1, key) for key, part in pairs}
    return value
