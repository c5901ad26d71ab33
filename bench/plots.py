"""Draw charts as PNG files."""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter, StrMethodFormatter

from .measure import CurveChart, LineChart, RangeChart, Result, Series, StackChart

MARKS = {"p50": ("o", "#1b6ca8"), "p95": ("D", "#e08e0b"), "p99": ("s", "#b3261e")}
COLOURS = ("#1b6ca8", "#5aa9e6", "#7fc8a9", "#e08e0b", "#b3261e", "#7a5195", "#8d99ae")
WIDTH, DPI = 9.0, 130
MAX_COLUMNS = 5
CURVE_ROWS = 12
STYLES: tuple[dict[str, Any], ...] = (
    {"linestyle": "-", "marker": "o"},
    {"linestyle": ":", "marker": "D"},
    {"linestyle": "--", "marker": "s"},
    {"linestyle": "-.", "marker": "^"},
)


def draw(result: Result, folder: Path) -> list[Path]:
    """Draw every chart of a result as `<result>-<chart>.png`."""
    matplotlib.use("Agg")
    return [_save(figure, folder / f"{result.name}-{name}.png") for name, figure in _figures(result)]


def _figures(result: Result) -> Iterator[tuple[str, Figure]]:
    for chart in result.ranges:
        yield chart.name, _range_figure(chart, [result.named(name) for name in chart.series])
    for stack in result.stacks:
        yield stack.name, _stack_figure(stack)
    for line in result.lines:
        yield line.name, _line_figure(line, [result.named(name) for name in line.series])
    for curve in result.curves:
        yield curve.name, _curve_figure(curve)


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=DPI)
    return path


def _figure(title: str, rows: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, 1.5 + 0.42 * rows), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def _label_rows(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.9)


def _range_figure(chart: RangeChart, series: list[Series]) -> Figure:
    figure, axes = _figure(chart.title, len(series))
    for row, entry in enumerate(series):
        axes.plot([_shown(entry.p50), _shown(entry.p99)], [row, row], color="#9aa5b1", linewidth=2, zorder=1)
    for key, (marker, colour) in MARKS.items():
        values = [_shown(getattr(entry, key)) for entry in series]
        axes.scatter(values, range(len(series)), marker=marker, color=colour, s=42, label=key, zorder=3)
    for label, limit in chart.limits.items():
        axes.axvline(limit, color="#444444", linestyle=":", linewidth=1, zorder=0)
        axes.annotate(f" {label}", (limit, -0.7), fontsize=7, va="center", color="#444444")
    _label_rows(axes, [f"{entry.name}\np50 {_number(entry.p50)}, p95 {_number(entry.p95)}" for entry in series])
    _log_axis(axes, series[0].unit)
    figure.legend(loc="outside lower center", ncols=len(MARKS), frameon=False)
    return figure


def _shown(value: float) -> float:
    """Return a positive value for the logarithmic axis."""
    return max(value, 0.1)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _log_axis(axes: Axes, unit: str) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"{unit}, logarithmic")
    axes.grid(axis="x", which="major", color="#e3e7eb", zorder=-1)


def _stack_figure(chart: StackChart) -> Figure:
    figure, axes = _figure(chart.title, len(chart.bars) + 1)
    parts = list(dict.fromkeys(part for bar in chart.bars.values() for part in bar))
    left = [0.0] * len(chart.bars)
    for number, part in enumerate(parts):
        widths = [bar.get(part, 0.0) for bar in chart.bars.values()]
        axes.barh(range(len(widths)), widths, left=left, height=0.6, color=COLOURS[number % len(COLOURS)], label=part)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for row, total in enumerate(left):
        axes.annotate(f" {_number(total)}", (total, row), va="center", fontsize=9)
    _label_rows(axes, list(chart.bars))
    axes.set_xlabel(chart.unit)
    axes.margins(x=0.08)
    figure.legend(loc="outside lower center", ncols=MAX_COLUMNS, frameon=False)
    return figure


def _line_figure(chart: LineChart, series: list[Series]) -> Figure:
    figure, axes = _figure(chart.title, 6)
    for number, entry in enumerate(series):
        minutes = [(place + 1) * chart.every_s / 60 for place in range(entry.count)]
        axes.plot(minutes, entry.values, color=COLOURS[number % len(COLOURS)], label=entry.name)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("minutes")
    axes.set_ylabel(series[0].unit)
    axes.grid(axis="y", color="#e3e7eb")
    figure.legend(loc="outside lower center", ncols=MAX_COLUMNS, frameon=False)
    return figure


def _curve_figure(chart: CurveChart) -> Figure:
    figure, axes = _figure(chart.title, CURVE_ROWS)
    names = dict.fromkeys(name for curves in chart.curves.values() for name in curves)
    colours = dict(zip(names, cycle(COLOURS)))
    styles = dict(zip(chart.curves, cycle(STYLES)))
    for kind, curves in chart.curves.items():
        for name, points in curves.items():
            axes.plot(*zip(*points, strict=True), color=colours[name], **styles[kind])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(chart.x_name)
    axes.set_ylabel(f"{chart.y_name}, logarithmic")
    axes.grid(color="#e3e7eb")
    keys = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    keys += [Line2D([], [], color="#444444", label=kind, **style) for kind, style in styles.items()]
    figure.legend(handles=keys, loc="outside lower center", ncols=MAX_COLUMNS - 1, frameon=False)
    return figure
