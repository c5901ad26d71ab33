"""A report, or a comparison of two, as one HTML page that needs nothing else. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from .charts import Row, distribution, intervals
from .comparison import Difference, Direction, EvaluationComparison, faults
from .measures import Measure
from .number_text import NAMES, RATES, difference, estimate, number
from .resampling import Estimate
from .results import Report, TaskRun, by_task

STYLE = """
:root{color-scheme:light dark;--ink:#1c2330;--soft:#667085;--line:#d8dde6;--paper:#fff;--good:#177245;--bad:#b3261e;
--mark:#2f5fd0}
@media(prefers-color-scheme:dark){:root{--ink:#e8ebf0;--soft:#9aa4b5;--line:#353c49;--paper:#14181f;--good:#5ac08a;
--bad:#ef8078;--mark:#8aabff}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:960px;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2.2rem}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600}.soft{color:var(--soft)}.better{color:var(--good)}.worse{color:var(--bad)}
svg{max-width:100%;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .label{text-anchor:end}
svg .tick{text-anchor:middle;fill:var(--soft)}svg .grid{stroke:var(--line)}svg .zero{stroke:var(--soft);
stroke-dasharray:3 3}svg .whisker{stroke:var(--mark);stroke-width:3}svg .dot{fill:var(--mark)}
svg .better{stroke:var(--good)}svg .worse{stroke:var(--bad)}svg circle.better{fill:var(--good)}
svg circle.worse{fill:var(--bad)}svg .curve{fill:none;stroke:var(--mark);stroke-width:2}
summary{cursor:pointer}.wrap{overflow-x:auto}
"""

MOST_TASKS = 500
"""Tasks that a page lists at most, the worst first."""

Summaries = Mapping[str, Mapping[Measure, Estimate]]
"""Measures of all tasks under the empty name, and of each category under its own."""


def report_page(report: Report, summaries: Summaries) -> str:
    """The page of one evaluation."""
    everything = summaries[""]
    times = [run.elapsed_ms for run in report.runs]
    marks = [
        (f"{NAMES[one]} {everything[one].value:.0f} ms", everything[one].value) for one in (Measure.P50, Measure.P95)
    ]
    return _page(
        f"Evaluation {report.id}",
        [
            _setup(report),
            "<h2>Measures</h2>",
            _rates(everything),
            _numbers(everything),
            "<h2>By category</h2>",
            _categories(summaries),
            "<h2>Times</h2>",
            distribution(times, marks),
            "<h2>Tasks with faults</h2>",
            _tasks(report),
        ],
    )


def comparison_page(before: Report, after: Report, found: EvaluationComparison) -> str:
    """The page of a comparison."""
    return _page(
        f"{after.id} against {before.id}",
        [
            f"<h2>Before</h2>{_setup(before)}<h2>After</h2>{_setup(after)}",
            f"<h2>Differences on {found.tasks} tasks</h2>",
            _rate_differences(found.differences),
            _table(["measure", "before", "after", "difference"], map(_difference, found.differences)),
            f"<h2>{len(found.changes)} tasks changed</h2>",
            _changes(before, after, found),
        ],
    )


def _page(title: str, parts: Iterable[str]) -> str:
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = "\n".join([f"<h1>{escape(title)}</h1>", *parts])
    frame = f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>'
    return f"{frame}{body}\n</body></html>\n"


def _setup(report: Report) -> str:
    setup = report.setup
    settings = ", ".join(f"{key} = {value}" for key, value in sorted(setup.settings.items()))
    facts = [
        ("made", f"{report.at:%Y-%m-%d %H:%M} UTC"),
        ("prompt", f"{setup.prompt} ({setup.prompt_hash[:12]})"),
        ("model", setup.model or "none: the deterministic engine"),
        ("embedder", setup.embedder),
        ("settings", settings or "defaults"),
        ("worlds", ", ".join(setup.worlds)),
        ("runs", f"{len(report.runs)}, {setup.repeat} of each task, {setup.parallel} at a time"),
    ]
    if report.missing:
        facts.append(("not run", f"{report.missing}: {report.stopped}"))
    return _table([], [[escape(name), escape(text)] for name, text in facts])


def _rates(found: Mapping[Measure, Estimate]) -> str:
    rows = [
        Row(NAMES[one], found[one].value, found[one].low, found[one].high, estimate(one, found[one]))
        for one in RATES
        if one in found
    ]
    return intervals(rows, 0.0, 1.0)


def _numbers(found: Mapping[Measure, Estimate]) -> str:
    others = [one for one in found if one not in RATES]
    return _table(["measure", "value"], [[NAMES[one], escape(estimate(one, found[one]))] for one in others])


def _categories(summaries: Summaries) -> str:
    shown = (Measure.PRECISION, Measure.RECALL, Measure.CLEAN, Measure.FORBIDDEN, Measure.ITEMS)
    rows = [
        [escape(name or "all"), *(escape(estimate(one, found.get(one))) for one in shown)]
        for name, found in sorted(summaries.items())
    ]
    return _table(["category", *(NAMES[one] for one in shown)], rows)


def _tasks(report: Report) -> str:
    """Tasks with faults, the worst first, with what is missing and what is too much."""
    worst = sorted(by_task(report.runs).values(), key=lambda runs: (-faults(runs), runs[0].key))
    rows = [_faulty(report, runs[0]) for runs in worst if faults(runs) > 0]
    return _table(["task", "message", "missing", "superfluous"], rows[:MOST_TASKS]) if rows else "<p>None.</p>"


def _faulty(report: Report, run: TaskRun) -> list[str]:
    injected = set(run.injected)
    missing = [key for key in run.essential if key not in injected]
    wrong = [key for key in run.injected if key not in run.relevant]
    return [_name(run.world, run.task, run.category), escape(_message(report, run.world, run.task))] + [
        _memories(report, run.world, keys, set(run.forbidden)) for keys in (missing, wrong)
    ]


def _name(world: str, task: str, category: str) -> str:
    return f'{escape(world)}<br>{escape(task)}<br><span class="soft">{escape(category)}</span>'


def _message(report: Report, world: str, task: str) -> str:
    return report.messages.get(world, {}).get(task, "")


def _memories(report: Report, world: str, keys: Sequence[str], forbidden: set[str]) -> str:
    texts = report.memories.get(world, {})
    mark = ' <b class="worse">forbidden</b>'
    lines = (f"<b>{escape(key)}</b>{mark if key in forbidden else ''} {escape(texts.get(key, ''))}" for key in keys)
    return "<br>".join(lines)


def _rate_differences(found: Sequence[Difference]) -> str:
    rates = [one for one in found if one.measure in RATES]
    most = max([0.05, *(abs(edge) for one in rates for edge in (one.low, one.high) if not math.isnan(edge))])
    rows = [
        Row(NAMES[one.measure], one.difference, one.low, one.high, difference(one), one.direction.value)
        for one in rates
    ]
    return intervals(rows, -most, most, zero=True)


def _difference(one: Difference) -> list[str]:
    words = f'<span class="{one.direction.value}">{escape(difference(one))}</span>'
    return [NAMES[one.measure], number(one.measure, one.before), number(one.measure, one.after), words]


def _changes(before: Report, after: Report, found: EvaluationComparison) -> str:
    rows = []
    for change in found.changes[:MOST_TASKS]:
        verdict = "" if change.direction is Direction.UNCLEAR else change.direction.value
        rows.append(
            [
                _name(change.world, change.task, change.category),
                f'<span class="{verdict}">{verdict}</span>',
                escape(_message(after, change.world, change.task)),
                _memories(after, change.world, change.added, set()),
                _memories(before, change.world, change.removed, set()),
            ]
        )
    return _table(["task", "", "message", "now as well", "no longer"], rows) if rows else "<p>None.</p>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    head = f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in heads)}</tr>" if heads else ""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wrap"><table>{head}{body}</table></div>'
