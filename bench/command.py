"""Run benchmarks, print the results and save them to files."""

import argparse
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.progress import Progress

from .measure import Report, Result, conditions, environment
from .options import WORLDS, Options
from .processes import BenchError
from .progress import make_progress
from .report import load, publish, publish_page, publish_section, save, show

Run = Callable[[Options, Progress], Result]

BENCHMARKS = ("queue", "deterministic", "hook_command", "http", "callers", "model", "imports")
"""Benchmarks that run if none is named."""

ON_WORLDS = ("pool", "choosing")
"""Benchmarks on labelled worlds; they run only when named."""

ON_DATA = ("outside",)
"""Benchmarks on data that the user provides; they run only when named."""

ON_SERVER = ("workers",)
"""Benchmarks on a server that the user provides; they run only when named."""

LONG = ("pages", "soak", "growth")
"""Benchmarks that take long to prepare, or hours; they run only when named."""

WITH_PAGE = ("peers",)
"""Benchmarks with a page of their own in the documentation; they run only when named."""

WITH_SECTION = {"growth": "scaling.md", "callers": "scaling.md"}
"""Pages of the documentation with a section of a benchmark."""

APART = (*WITH_PAGE, *WITH_SECTION)

ALL = (*BENCHMARKS, *ON_WORLDS, *ON_DATA, *ON_SERVER, *WITH_PAGE, *LONG)

PACKAGES = ("outside", "peers")
"""Benchmarks of several modules."""


def module_of(name: str) -> ModuleType:
    """Import a benchmark, which imports much of the project."""
    return import_module(f"bench.{name}.benchmark" if name in PACKAGES else f"bench.{name}")


def main() -> int:
    arguments = _arguments()
    logging.getLogger("hooks").setLevel(logging.CRITICAL)  # the benchmarks count failures themselves
    options = Options(arguments.out, arguments.quick, arguments.full, arguments.worlds, arguments.data)
    try:
        reports = [] if arguments.publish and not arguments.names else _run_all(arguments, options)
        if arguments.publish:
            _publish(arguments.names, options.out)
    except BenchError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if arguments.json:
        sys.stdout.write("[" + ",".join(report.model_dump_json() for report in reports) + "]\n")
    return 0


def _publish(names: list[str], out: Path) -> None:
    """Write the pages and sections of the named benchmarks, and the page of all others unless only such were named."""
    for report in load(out, [name for name in names if name in WITH_PAGE]):
        publish_page(report, out)
    for report in load(out, [name for name in names if name in WITH_SECTION]):
        publish_section(report, WITH_SECTION[report.result.name], out)
    if not names or not all(name in APART for name in names):
        publish(load(out, [name for name in BENCHMARKS if name not in APART]), out)


_FOR_WORLDS = ", ".join((*ON_WORLDS, *WITH_PAGE))
_OTHERS = ", ".join((*ON_WORLDS, *ON_DATA, *ON_SERVER, *WITH_PAGE, *LONG))
_NAMES = f"benchmarks to run: {', '.join(BENCHMARKS)} (the default), {_OTHERS}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=_NAMES)
    parser.add_argument("--quick", action="store_true", help="run briefly, to check that everything works")
    parser.add_argument("--full", action="store_true", help="include cases that take minutes to prepare")
    parser.add_argument(
        "--worlds",
        type=Path,
        default=WORLDS,
        help=f"folder of labelled worlds, for {_FOR_WORLDS}",
    )
    parser.add_argument("--data", type=Path, help=f"folder of data sets by other authors, for {', '.join(ON_DATA)}")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), help="folder for results")
    parser.add_argument(
        "--publish",
        action="store_true",
        help=f"write docs/benchmarks.md, or the page of {', '.join(APART)}, from results; run only named benchmarks",
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in ALL]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; use {', '.join(ALL)}")
    return arguments


def _run_all(arguments: argparse.Namespace, options: Options) -> list[Report]:
    console = Console()
    reports = []
    for name in arguments.names or BENCHMARKS:
        with make_progress() as progress:
            report = _run(module_of(name).run, options, progress)
        save(report, options.out)
        reports.append(report)
        if not arguments.json:
            show(report, console)
    return reports


def _run(benchmark: Run, options: Options, progress: Progress) -> Report:
    started_at, start, before = datetime.now(UTC), time.perf_counter(), conditions()
    result = benchmark(options, progress)
    return Report(
        result=result,
        quick=options.quick,
        full=options.full,
        started_at=started_at.strftime("%Y-%m-%d %H:%M UTC"),
        seconds=round(time.perf_counter() - start, 1),
        environment=environment(),
        before=before,
        after=conditions(),
    )
