"""Charts as SVG inside a page: no scripts, nothing from elsewhere. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720
ROW = 26
LABEL = 190
RIGHT = 190
PLOT = WIDTH - LABEL - RIGHT
AXIS = 22
LINE = 16
"""Pixels from a line of text to the next."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a chart of intervals: a label, a value with its interval, and the value in words."""

    label: str
    value: float
    low: float
    high: float
    words: str
    kind: str = "plain"


def intervals(rows: Sequence[Row], least: float, most: float, *, zero: bool = False) -> str:
    """Dots with their intervals on one axis from `least` to `most`; `zero` marks nothing in the middle."""
    height = ROW * len(rows) + AXIS
    span = (most - least) or 1.0

    def place(value: float) -> float:
        return LABEL + PLOT * (min(max(value, least), most) - least) / span

    parts = [_open(height)]
    for tick in ticks(least, most):
        at = place(tick)
        parts.append(f'<line x1="{at:.1f}" y1="0" x2="{at:.1f}" y2="{height - AXIS}" class="grid"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - 6}" class="tick">{tick:g}</text>')
    if zero:
        parts.append(f'<line x1="{place(0):.1f}" y1="0" x2="{place(0):.1f}" y2="{height - AXIS}" class="zero"/>')
    for number, row in enumerate(rows):
        middle = ROW * number + ROW / 2
        parts.append(f'<text x="{LABEL - 8}" y="{middle + 4:.1f}" class="label">{escape(row.label)}</text>')
        if not math.isnan(row.low):
            low, high = place(row.low), place(row.high)
            parts.append(
                f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" class="whisker {row.kind}"/>'
            )
        parts.append(f'<circle cx="{place(row.value):.1f}" cy="{middle}" r="4.5" class="dot {row.kind}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 10}" y="{middle + 4:.1f}" class="words">{escape(row.words)}</text>')
    return "".join([*parts, "</svg>"])


def distribution(values: Sequence[float], marks: Sequence[tuple[str, float]]) -> str:
    """Which share of `values` (milliseconds) is at most so large, on a logarithmic axis, with labelled lines."""
    top = 150
    height = top + LINE * (len(marks) + 2)
    ordered = sorted(max(value, 0.1) for value in values)
    least, most = math.log10(ordered[0]), math.log10(max(ordered[-1], ordered[0] * 1.01))

    def across(value: float) -> float:
        return LABEL / 2 + (WIDTH - LABEL) * (math.log10(max(value, 0.1)) - least) / (most - least)

    points = [f"{across(value):.1f},{top - (top - 10) * (n + 1) / len(ordered):.1f}" for n, value in enumerate(ordered)]
    parts = [_open(height), f'<polyline points="{" ".join(points)}" class="curve"/>']
    parts.append(f'<line x1="{LABEL / 2}" y1="{top}" x2="{WIDTH - LABEL / 2}" y2="{top}" class="grid"/>')
    for number, (label, value) in enumerate(marks, 1):
        at = across(value)
        parts.append(f'<line x1="{at:.1f}" y1="10" x2="{at:.1f}" y2="{top}" class="zero"/>')
        parts.append(f'<text x="{at:.1f}" y="{top + LINE * number}" class="tick">{escape(label)}</text>')
    below = top + LINE * (len(marks) + 1)
    ends = (ordered[0], ordered[-1])
    parts += [f'<text x="{across(value):.1f}" y="{below}" class="tick">{value:.0f} ms</text>' for value in ends]
    return "".join([*parts, "</svg>"])


def ticks(least: float, most: float, wanted: int = 5) -> list[float]:
    """Round numbers from `least` to `most`, about so many."""
    span = most - least
    if span <= 0:
        return [least]
    raw = span / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    first = math.ceil(least / step)
    return [round(number * step, 10) for number in range(first, math.floor(most / step + 1e-9) + 1)]


def _open(height: float) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">'
