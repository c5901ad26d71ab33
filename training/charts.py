"""Draw charts of a relevance model as PNG files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import matplotlib.patches
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .choosing import Measures
from .table import Floats

WIDTH, HEIGHT, DPI = 7.0, 4.2, 130
COLOURS = ("#1b6ca8", "#e08e0b", "#8d99ae", "#7a5195")
BINS = 10

Line = tuple[Sequence[float], Sequence[float]]


def _figure(title: str, across: str, up: str) -> tuple[Figure, Axes]:
    matplotlib.use("Agg")
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(color="#e3e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def tradeoff_chart(lines: Mapping[str, Line], up: str, path: Path) -> None:
    """Draw two shares against each other for all thresholds, one line per way of scoring."""
    figure, axes = _figure(f"Recall of essential and {up}, unseen worlds", "recall of essential", up)
    for (name, (across, values)), colour in zip(lines.items(), COLOURS, strict=False):
        axes.plot(across, values, color=colour, label=name)
    axes.set_xlim(0.0, 0.8)
    axes.set_ylim(0.0, 1.02)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=DPI)


def reliability(likely: Floats, relevant: Floats) -> list[tuple[float, float, int]]:
    """Return mean probability, share of relevant candidates, and their number, per tenth of the probability."""
    places = np.minimum((likely * BINS).astype(int), BINS - 1)
    return [
        (float(likely[places == place].mean()), float(relevant[places == place].mean()), int((places == place).sum()))
        for place in range(BINS)
        if (places == place).any()
    ]


def reliability_chart(points: Sequence[tuple[float, float, int]], path: Path) -> None:
    """Draw the share of relevant candidates over the predicted probability."""
    figure, axes = _figure("Reliability, unseen worlds", "predicted probability", "share of relevant candidates")
    axes.plot([0, 1], [0, 1], color="#8d99ae", linestyle=":", linewidth=1)
    axes.plot([point[0] for point in points], [point[1] for point in points], marker="o", color=COLOURS[0])
    for mean, share, number in points:
        axes.annotate(str(number), (mean, share), textcoords="offset points", xytext=(6, -10), fontsize=8)
    figure.savefig(path, dpi=DPI)


def category_chart(found: Mapping[str, Measures], path: Path) -> None:
    """Draw recall of essential memories, or clean turns, by category."""
    figure, axes = _figure("By category at balanced, unseen worlds", "share", "")
    names = list(found)
    needing = [name for name in names if found[name].recall > 0.0]
    values = [found[name].recall if name in needing else found[name].clean for name in names]
    colours = [COLOURS[0] if name in needing else COLOURS[1] for name in names]
    axes.barh(names, values, color=colours)
    axes.set_xlim(0.0, 1.0)
    axes.invert_yaxis()
    axes.legend(
        handles=[matplotlib.patches.Patch(color=COLOURS[0]), matplotlib.patches.Patch(color=COLOURS[1])],
        labels=["recall of essential", "clean turns"],
        frameon=False,
    )
    figure.savefig(path, dpi=DPI)
