"""Print results, save them to files, and publish them in the documentation."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from .measure import Check, Environment, Report, Result, Series, Table
from .processes import ROOT, BenchError

PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "img"
TARGETS = ("what", "target", "measured", "")
COLUMNS = ("", "n", "p50", "p95", "p99", "best", "worst", "unit")


def save(report: Report, out: Path) -> None:
    """Save a report as `<name>.json`, its charts, and its tables as `<name>.md`."""
    from .plots import draw  # noqa: PLC0415 - matplotlib takes a second to load

    out.mkdir(parents=True, exist_ok=True)
    (out / f"{report.result.name}.json").write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
    draw(report.result, out)
    if report.result.tables:
        text = "\n".join(line for table in report.result.tables for line in markdown(table))
        (out / f"{report.result.name}.md").write_text(text, encoding="utf-8")


def markdown(table: Table) -> list[str]:
    """Return a table as lines of Markdown."""
    rows = [table.heads, ("---",) * len(table.heads), *table.rows]
    return [f"**{table.title}**", "", *(f"| {' | '.join(row)} |" for row in rows), ""]


def show(report: Report, console: Console) -> None:
    result = report.result
    console.rule(f"[bold]{result.title}", align="left")
    targets = RichTable("target", "", "measured", "", title_justify="left", show_edge=False)
    for check in result.checks:
        verdict = "[green]reached[/green]" if check.passed else "[red]missed[/red]"
        targets.add_row(check.name, check.target, f"{check.measured:.1f} {check.unit}", verdict)
    console.print(targets)
    console.print()
    table = RichTable(*COLUMNS, show_edge=False)
    for series in result.series:
        table.add_row(*_row(series))
    console.print(table)
    for found in result.tables:
        console.print()
        printed = RichTable(*found.heads, title=found.title, title_justify="left", show_edge=False)
        for row in found.rows:
            printed.add_row(*row)
        console.print(printed)
    for note in result.notes:
        console.print(note, highlight=False)
    console.print(_circumstances(report), style="dim")


def _row(series: Series) -> tuple[str, ...]:
    numbers = (series.p50, series.p95, series.p99, series.least, series.most)
    return (series.name, str(series.count), *(f"{number:.1f}" for number in numbers), series.unit)


def _circumstances(report: Report) -> str:
    before, after = report.before, report.after
    verdict = "" if before.calm else "Other programs were running, so times are longer than on an idle machine. "
    return (
        f"{verdict}Load average {before.load} before and {after.load} after; a busy thread got "
        f"{before.core_share:.0%} of a core before and {after.core_share:.0%} after. "
        f"{report.started_at}, {report.seconds:.0f} s{', quick' if report.quick else ''}."
    )


def load(out: Path, names: Sequence[str]) -> list[Report]:
    """Load saved reports. Raise `BenchError` if some are missing."""
    missing = [name for name in names if not (out / f"{name}.json").is_file()]
    if missing:
        raise BenchError(f"no results of {', '.join(missing)} in {out}; run `python -m bench` first")
    return [Report.model_validate_json((out / f"{name}.json").read_bytes()) for name in names]


def publish(reports: Sequence[Report], out: Path) -> None:
    """Write the page and its images. Raise `BenchError` for quick results."""
    _copy_images(reports, out)
    PAGE.write_text("\n".join(_page(reports)) + "\n", encoding="utf-8")


def publish_page(report: Report, out: Path) -> None:
    """Write the page of one benchmark, `docs/<name>.md`, and its images. Raise `BenchError` for quick results."""
    _copy_images([report], out)
    (ROOT / "docs" / f"{report.result.name}.md").write_text("\n".join(own_page(report)) + "\n", encoding="utf-8")


def _copy_images(reports: Sequence[Report], out: Path) -> None:
    quick = [report.result.name for report in reports if report.quick]
    if quick:
        raise BenchError(f"quick results cannot be published; run these without --quick: {', '.join(quick)}")
    IMAGES.mkdir(parents=True, exist_ok=True)
    for report in reports:
        for name in charts(report.result):
            shutil.copyfile(out / name, IMAGES / name)


def publish_section(report: Report, page: str, out: Path) -> None:
    """Replace the section of one benchmark in `docs/<page>`, and its images. Raise `BenchError` for quick results."""
    _copy_images([report], out)
    path = ROOT / "docs" / page
    path.write_text(with_section(path.read_text(encoding="utf-8"), report), encoding="utf-8")


def with_section(text: str, report: Report) -> str:
    """Return a page with another section of a benchmark, from its title to the next heading of that level."""
    heading = f"\n## {report.result.title}\n"
    before, found, rest = text.partition(heading)
    if not found:
        raise BenchError(f"the page has no section {report.result.title}")
    _, following, after = rest.partition("\n## ")
    return "\n".join((f"{before}{heading}", *_content(report), "")) + following + after


def own_page(report: Report) -> list[str]:
    """Return the page of one benchmark."""
    return [f"# {report.result.title}", "", *_content(report)]


def _content(report: Report) -> list[str]:
    """Return what a benchmark found: its tables first, without the percentiles of all series."""
    result = report.result
    targets = markdown(Table(title="Targets", heads=TARGETS, rows=tuple(map(_target, result.checks))))
    tables = [*(targets if result.checks else []), *(line for table in result.tables for line in markdown(table))]
    images = [line for name in charts(result) for line in (f"![{name.removesuffix('.png')}](img/{name})", "")]
    notes = [line for note in result.notes for line in (note, "")]
    machine = [line for line in _machine(report.environment) if not line.startswith("Other programs")]
    return [
        result.method,
        "",
        "```",
        _command(report),
        "```",
        "",
        *images,
        *tables,
        *notes,
        *machine,
        "",
        f"_{_circumstances(report)}_",
    ]


def _command(report: Report) -> str:
    """Return what makes the report again."""
    name, options = report.result.name, ["--full"] if report.full else []
    target, arguments = (name, options) if name == "peers" else ("bench", [name, *options])
    return f'make {target} ARGS="{" ".join(arguments)}"' if arguments else f"make {target}"


def charts(result: Result) -> list[str]:
    """Return the file names of a result's charts."""
    names = [chart.name for chart in result.ranges]
    names += [chart.name for chart in result.stacks]
    names += [chart.name for chart in result.lines]
    names += [chart.name for chart in result.curves]
    return [f"{result.name}-{name}.png" for name in names]


def _page(reports: Sequence[Report]) -> list[str]:
    lines = [
        "# Benchmarks",
        "",
        "Measured with `python -m bench` on real components: an embedded Valkey, separate worker processes, the",
        "embedded store, the real embedder and real processes of the command. Callers run on the same machine.",
        "Compared variants ran at the same time, in shuffled order. Numbers on your machine will differ.",
        "",
        "```",
        "make bench                                  # everything, about ten minutes",
        'make bench ARGS="queue imports --quick"     # some of it, to check that it works',
        'make bench ARGS="--full"                    # with 100,000 memories',
        'make bench ARGS="pages"                     # pages of the console over 100,000 memories and requests',
        'make bench ARGS="soak"                      # two hours of mixed load: what grows',
        'make bench ARGS="growth --full"             # 1,000 to 1,000,000 memories, one and 1,000 tenants',
        'make bench ARGS="--publish"                 # writes this page from the last results',
        "```",
        "",
        *_machine(reports[0].environment),
        "",
        "## Targets",
        "",
        f"| {' | '.join(TARGETS)} |",
        "|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(_target(check))} |" for report in reports for check in report.result.checks]
    for report in reports:
        lines += ["", *_section(report)]
    return lines


def _target(check: Check) -> tuple[str, ...]:
    verdict = "reached" if check.passed else "**missed**"
    return check.name, check.target.strip(), f"{check.measured:.1f} {check.unit}".strip(), verdict


def _machine(found: Environment) -> list[str]:
    packages = ", ".join(f"{name} {version}" for name, version in found.packages.items())
    return [
        f"Machine: {found.cpu}, {found.cores} cores, {found.system}; Python {found.python}.",
        f"Packages: {packages}.",
        "Other programs ran on the same cores; each section says how busy the machine was.",
    ]


def _section(report: Report) -> list[str]:
    result = report.result
    lines = [f"## {result.title}", "", result.method, "", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    lines += [f"| {' | '.join(_row(series))} |" for series in result.series]
    for note in result.notes:
        lines += ["", note]
    for name in charts(result):
        lines += ["", f"![{name.removesuffix('.png')}](img/{name})"]
    return [*lines, "", f"_{_circumstances(report)}_"]
