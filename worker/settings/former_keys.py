"""Keys of earlier versions: renamed ones keep working, removed ones are ignored with a warning."""

from collections.abc import Mapping
from typing import Any

RENAMED = {"judge_point": "relevance_profile"}

REMOVED = frozenset(
    {
        "candidate_order",
        "first_recall",
        "fusion",
        "rrf_k",
        "usage_damping",
        "usage_judge",
        "verdict_cache_s",
        "verdict_cache_size",
    }
)


def current_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` under the keys of this version; a value given under its present key wins."""
    renamed = {RENAMED[key]: value for key, value in values.items() if key in RENAMED}
    return renamed | {key: value for key, value in values.items() if key not in RENAMED and key not in REMOVED}


def former_key_warnings(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each former key in `values` with what became of it."""
    renamed = [(key, f"is now called {RENAMED[key]}") for key in values if key in RENAMED]
    return renamed + [(key, "no longer exists and is ignored") for key in values if key in REMOVED]
