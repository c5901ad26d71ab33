"""The stand-alone command: a new process per request, as hosts run it."""

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.progress import Progress

from .corpus import TENANT, related_messages
from .measure import RangeChart, Result, Series, interleaved, latency_checks, ratio
from .options import Options
from .processes import (
    ROOT,
    BenchError,
    Finished,
    environ,
    run_timed,
    running_queue_worker,
    running_service,
    running_valkey,
    scratch,
)
from .progress import bar
from .queue_worker import MEESEEKS
from .stores import make_store

NAME = "hook_command"
ROUNDS, QUICK_ROUNDS = 60, 5
MEMORIES, QUICK_MEMORIES = 1_000, 100

SCRIPT = "meeseeks-hook"
SHIM = "python -I -S hooks/shim.py"
SHIM_WHOLE = "python -I -S hooks/shim.py, full answer"
NATIVE_WHOLE = "meeseeks-hook claude-code, full answer"
BARE = "python -c pass"
BARE_ISOLATED = "python -I -S -c pass"
REDIS = "python -c 'import redis'"

LIMITS = {"p50": 50.0}


def commands() -> Mapping[str, list[str]]:
    python = sys.executable
    shim = [python, "-I", "-S", str(ROOT / "hooks" / "shim.py")]
    return {
        SCRIPT: [str(Path(python).with_name("meeseeks-hook"))],
        SHIM: shim,
        SHIM_WHOLE: shim,
        NATIVE_WHOLE: [str(Path(python).with_name("meeseeks-hook")), "claude-code"],
        BARE: [python, "-c", "pass"],
        BARE_ISOLATED: [python, "-I", "-S", "-c", "pass"],
        REDIS: [python, "-c", "import redis"],
    }


REQUESTING = (SCRIPT, SHIM, SHIM_WHOLE, NATIVE_WHOLE)
WHOLE = (SHIM_WHOLE, NATIVE_WHOLE)


def run(options: Options, progress: Progress) -> Result:
    """Run the command against a worker whose job does nothing and against a full service."""
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    with ExitStack() as stack:
        url = stack.enter_context(running_valkey())
        stack.enter_context(running_queue_worker(MEESEEKS, url))
        data_dir = stack.enter_context(scratch())
        make_store(data_dir, QUICK_MEMORIES if options.quick else MEMORIES, options.out / "cache", progress)
        whole = stack.enter_context(running_service(data_dir, "--model", "none"))
        urls = {SCRIPT: url, SHIM: url, **dict.fromkeys(WHOLE, whole.url)}
        return _result(_measure(urls, rounds, progress))


def _measure(urls: dict[str, str], rounds: int, progress: Progress) -> dict[str, list[Finished]]:
    found = commands()
    spent: dict[str, list[Finished]] = {name: [] for name in found}
    texts = related_messages()
    with bar(progress, "hook command", (rounds + 1) * len(found)) as advance:
        for number, name in enumerate(interleaved(tuple(found), rounds + 1)):
            message = next(texts) if name in WHOLE else "0"
            ask = _ask_natively if name == NATIVE_WHOLE else _ask
            finished = ask(found[name], urls.get(name), message)
            if number >= len(found):
                spent[name].append(finished)
            advance()
    return spent


def _ask(command: list[str], url: str | None, message: str) -> Finished:
    """Run one process. Drop its output unless it is an answer."""
    request = {"session_id": message, "message": message, "scope": {"tenant": TENANT}}
    variables = environ(MEESEEKS_REDIS_URL=url) if url else environ()
    done = run_timed(command, variables, json.dumps(request).encode())
    answered = json.loads(done.output or b"{}").get("outcome") in ("none_relevant", "injected")
    return done if answered or not url else replace(done, output=b"")


def _ask_natively(command: list[str], url: str | None, message: str) -> Finished:
    """Run one process with a native event. Drop its output unless it contains a block."""
    event = {"hook_event_name": "UserPromptSubmit", "session_id": message, "prompt": message}
    variables = environ(MEESEEKS_REDIS_URL=url or "", MEESEEKS_TENANT=TENANT)
    done = run_timed(command, variables, json.dumps(event).encode())
    return done if "hookSpecificOutput" in json.loads(done.output or b"{}") else replace(done, output=b"")


def _walls(name: str, finished: list[Finished]) -> list[float]:
    """Return the wall times; of requests, only the answered ones."""
    walls = [entry.wall for entry in finished if entry.output or name not in REQUESTING]
    if not walls:
        raise BenchError(f"{name} got no answers")
    return walls


def _result(finished: dict[str, list[Finished]]) -> Result:
    spent = {name: _walls(name, entries) for name, entries in finished.items()}
    series = {name: Series.of(name, values) for name, values in spent.items()}
    processor = [
        Series.of(f"{name}: processor time", [entry.processor for entry in entries])
        for name, entries in finished.items()
    ]
    return Result(
        name=NAME,
        title="The stand-alone command",
        method=(
            "New processes, from start to exit, in shuffled order. The first two call a worker whose job does nothing, "
            "to measure the command alone; the next two get full answers without a model from a store of 1,000 "
            "memories, one of them for a native event. The others make no request: they show the startup time of "
            "Python and of a Redis client."
        ),
        checks=(
            *latency_checks("`meeseeks-hook`, a new process with its answer", series[SCRIPT], **LIMITS),
            *latency_checks("`python -I -S hooks/shim.py`, the same", series[SHIM], **LIMITS),
            *latency_checks("`meeseeks-hook claude-code` with a full answer, the same", series[NATIVE_WHOLE], **LIMITS),
        ),
        series=(*series.values(), *processor),
        notes=(_comparison(spent), _unanswered(spent, finished)),
        ranges=(
            RangeChart(
                name="latency",
                title="A new process, start to exit",
                series=tuple(series),
                limits={"p50 target": LIMITS["p50"]},
            ),
        ),
    )


def _comparison(spent: dict[str, list[float]]) -> str:
    return (
        f"Medians: a process that only imports redis takes {ratio(spent[REDIS], spent[SCRIPT]):.1f} times as long "
        f"as `meeseeks-hook` with its answer, and {ratio(spent[REDIS], spent[SHIM]):.1f} times as long as the bare "
        f"file, which takes {ratio(spent[SHIM], spent[BARE_ISOLATED]):.1f} times as long as an empty Python process."
    )


def _unanswered(spent: dict[str, list[float]], finished: dict[str, list[Finished]]) -> str:
    missing = "; ".join(
        f"{name}: {len(finished[name]) - len(spent[name])} of {len(finished[name])}" for name in REQUESTING
    )
    return f"Processes without an answer, or without a block for native events, which are not counted: {missing}."
