"""Bounds for requests: what is longer than any search reads does not travel through the queue. Fast to load."""

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


def clipped(text: str, head: int = MESSAGE_HEAD, tail: int = MESSAGE_TAIL) -> str:
    """Return `text` without the middle of a longer one."""
    return text if len(text) <= head + tail else f"{text[:head]}\n{text[-tail + 1 :]}"


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
