"""What a request asks: whether anything is searched for at all, and with which text. Pure."""

from .focus import Focus, focus, focused_query
from .skipping import effective_mode, skip_reason

__all__ = ["Focus", "effective_mode", "focus", "focused_query", "skip_reason"]
