"""Format the numbers of an evaluation. Pure."""

import math
from collections.abc import Mapping
from typing import Any

from .comparison import Difference
from .measures import Measure
from .resampling import Estimate

NAMES = {
    Measure.PRECISION: "precision",
    Measure.RECALL: "recall of essential",
    Measure.CLEAN: "clean turns",
    Measure.FORBIDDEN: "forbidden",
    Measure.ITEMS: "items per turn",
    Measure.FALLBACK: "fallbacks",
    Measure.P50: "p50",
    Measure.P95: "p95",
    Measure.TOKENS: "tokens per turn",
    Measure.COST: "dollars per 1,000 turns",
}

RATES = (Measure.PRECISION, Measure.RECALL, Measure.CLEAN, Measure.FORBIDDEN, Measure.FALLBACK)
TIMES = (Measure.P50, Measure.P95)


def number(measure: Measure, value: float, *, signed: bool = False) -> str:
    """Format a value with its unit."""
    if math.isnan(value):
        return "?"
    sign = "+" if signed else ""
    if measure in RATES:
        return f"{value:{sign}.3f}"
    if measure in TIMES:
        return f"{value:{sign}.0f} ms"
    if measure is Measure.COST:
        return f"{value * 1000:{sign}.3f}"
    return f"{value:{sign}.2f}" if measure is Measure.ITEMS else f"{value:{sign}.0f}"


def estimate(measure: Measure, found: Estimate) -> str:
    """Format a value with its interval."""
    if math.isnan(found.low) or found.low == found.high:
        return number(measure, found.value)
    return f"{number(measure, found.value)} ({number(measure, found.low)} to {number(measure, found.high)})"


def difference(found: Difference) -> str:
    """Format a difference with its interval."""
    low, high = (number(found.measure, edge, signed=True) for edge in (found.low, found.high))
    return f"{number(found.measure, found.difference, signed=True)} ({low} to {high})"


def plain(summary: Mapping[Measure, Estimate]) -> dict[str, Any]:
    """Return a summary as JSON values; unknown ends of intervals are `None`."""
    return {
        measure.value: {"value": found.value, "low": known(found.low), "high": known(found.high)}
        for measure, found in summary.items()
    }


def known(value: float) -> float | None:
    return None if math.isnan(value) else value
