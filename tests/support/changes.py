"""Changes of different fields of one memory, for tests of parallel writers."""

from typing import Any

CHANGES: tuple[dict[str, Any], ...] = (
    {"importance": 0.9},
    {"channel": "harbour"},
    {"entities": ["Solveig"]},
    {"source": "log"},
    {"type": "decision"},
    {"content": "The gate is red now"},
    {"scope": {"project": "pier"}},
    {"valid_until": "2030-01-01T00:00:00Z"},
)
WANTED = {name: value for change in CHANGES for name, value in change.items()}
"""What a memory must hold after all of them."""
