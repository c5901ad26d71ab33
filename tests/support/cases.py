"""Faults that users of memory systems have reported, as scenarios: `tests/data/reported-faults.jsonl`."""

import json
from typing import Any

from tests.support.paths import ROOT

_FILE = ROOT / "tests" / "data" / "reported-faults.jsonl"


def case(case_id: str) -> dict[str, Any]:
    """The scenario's `given`, with memories in the form that the importer takes."""
    scenarios = map(json.loads, _FILE.read_text(encoding="utf-8").splitlines())
    given: dict[str, Any] = next(scenario["given"] for scenario in scenarios if scenario["id"] == case_id)
    if isinstance(given.get("memories"), list):
        given["memories"] = [_memory(raw) for raw in given["memories"]]
    return given


def _memory(raw: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in raw.items() if key not in ("status", "tenant", "links")}
    if raw.get("links"):
        kept["relations"] = [{"kind": "related_to", "target": target} for target in raw["links"]]
    return kept
