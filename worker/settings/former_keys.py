"""Settings keys of earlier versions: renamed keys keep working, removed keys cause a warning."""

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
    """Return `values` under current keys; if both the old and the new key are given, the new one wins."""
    renamed = {RENAMED[key]: value for key, value in values.items() if key in RENAMED}
    return renamed | {key: value for key, value in values.items() if key not in RENAMED and key not in REMOVED}


def former_key_warnings(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each outdated key in `values` with a message about it."""
    renamed = [(key, f"has been renamed to {RENAMED[key]}") for key in values if key in RENAMED]
    return renamed + [(key, "no longer exists and is ignored") for key in values if key in REMOVED]
