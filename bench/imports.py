"""Import time: new processes that import something, against those that import nothing."""

import sys
from collections.abc import Mapping

from rich.progress import Progress

from .measure import Check, RangeChart, Result, Series, interleaved
from .options import Options
from .processes import ROOT, Finished, environ, run_timed
from .progress import bar

NAME = "imports"
ROUNDS, QUICK_ROUNDS = 25, 1

BARE = "python"
HOOKS = "import hooks (the hook itself)"
CLI = "import worker.cli"
BARE_ISOLATED = "python -I -S"
SHIM = "python -I -S hooks/shim.py, disabled"

COMMANDS: Mapping[str, tuple[str, ...]] = {
    BARE: ("-c", "pass"),
    HOOKS: ("-c", "from hooks import InjectionRequest, PreExecutionHook"),
    CLI: ("-c", "import worker.cli"),
    BARE_ISOLATED: ("-I", "-S", "-c", "pass"),
    SHIM: ("-I", "-S", str(ROOT / "hooks" / "shim.py")),
}

LIMITS = {HOOKS: (BARE, 300.0), SHIM: (BARE_ISOLATED, 25.0)}
"""The baseline of each, and the maximum milliseconds above it."""


def run(options: Options, progress: Progress) -> Result:
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    spent: dict[str, list[Finished]] = {name: [] for name in COMMANDS}
    for name in COMMANDS:
        _finished(name)
    with bar(progress, "imports", rounds * len(COMMANDS)) as advance:
        for name in interleaved(tuple(COMMANDS), rounds):
            spent[name].append(_finished(name))
            advance()
    return _result(spent)


def _finished(name: str) -> Finished:
    return run_timed([sys.executable, *COMMANDS[name]], environ(MEESEEKS_DISABLE="1"))


def _result(spent: dict[str, list[Finished]]) -> Result:
    wall = {name: Series.of(name, [entry.wall for entry in entries]) for name, entries in spent.items()}
    processor = [
        Series.of(f"{name}: processor time", [entry.processor for entry in entries]) for name, entries in spent.items()
    ]
    checks = tuple(
        Check(name=f"{name}, above {base}, p50", measured=round(wall[name].p50 - wall[base].p50, 1), limit=limit)
        for name, (base, limit) in LIMITS.items()
    )
    best = "; ".join(
        f"{name}, above {base}: {wall[name].least - wall[base].least:.0f} ms" for name, (base, _) in LIMITS.items()
    )
    return Result(
        name=NAME,
        title="Import time",
        method=(
            "New processes from start to exit, with compiled files, in shuffled order. `hooks` loads names on first "
            "use, so the test imports two of them. The stand-alone command is disabled by its variable: it loads "
            "everything and exits."
        ),
        checks=checks,
        series=(*wall.values(), *processor),
        notes=(f"Best of all rounds: {best}.",),
        ranges=(RangeChart(name="wall", title="Start to exit of a process", series=tuple(COMMANDS)),),
    )
