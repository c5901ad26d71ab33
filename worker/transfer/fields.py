"""A memory as fields of an entry, which leave out what is not set."""

import json
import re
from typing import Any

from worker.domain.memory import Memory

_CONTROL = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters that JSON would leave as they are, although the line may go to a terminal."""


def to_fields(memory: Memory) -> dict[str, Any]:
    """Return the memory as JSON without default values, but with `created_at` if it is explicitly unknown."""
    fields = memory.model_dump(mode="json", exclude_defaults=True)
    if memory.created_at is None and "created_at" in memory.model_fields_set:
        fields["created_at"] = None
    return fields


def to_line(memory: Memory) -> str:
    """Return the memory as one line of JSON."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(to_fields(memory), ensure_ascii=False))
