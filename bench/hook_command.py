"""The stand-alone command: a fresh process per question, as hosts run it."""

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
SHIM_WHOLE = "python -I -S hooks/shim.py, whole answer"
NATIVE_WHOLE = "meeseeks-hook claude-code, whole answer"
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


ASKING = (SCRIPT, SHIM, SHIM_WHOLE, NATIVE_WHOLE)
WHOLE = (SHIM_WHOLE, NATIVE_WHOLE)


def run(options: Options, progress: Progress) -> Result:
    """A worker whose job does nothing, a whole service, and fresh processes that ask the one or the other."""
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
            took = ask(found[name], urls.get(name), message)
            if number >= len(found):
                spent[name].append(took)
            advance()
    return spent


def _ask(command: list[str], url: str | None, message: str) -> Finished:
    """One process; whoever asks must have printed an answer."""
    request = {"session_id": message, "message": message, "scope": {"tenant": TENANT}}
    variables = environ(MEESEEKS_REDIS_URL=url) if url else environ()
    done = run_timed(command, variables, json.dumps(request).encode())
    answered = json.loads(done.output or b"{}").get("outcome") in ("none_relevant", "injected")
    return done if answered or not url else replace(done, output=b"")


def _ask_natively(command: list[str], url: str | None, message: str) -> Finished:
    """One process with a host's own event; an answer is the host's own output with a block in it."""
    event = {"hook_event_name": "UserPromptSubmit", "session_id": message, "prompt": message}
    variables = environ(MEESEEKS_REDIS_URL=url or "", MEESEEKS_TENANT=TENANT)
    done = run_timed(command, variables, json.dumps(event).encode())
    return done if "hookSpecificOutput" in json.loads(done.output or b"{}") else replace(done, output=b"")


def _walls(name: str, finished: list[Finished]) -> list[float]:
    """Of those that asked, only those that were answered count."""
    walls = [entry.wall for entry in finished if entry.output or name not in ASKING]
    if not walls:
        raise BenchError(f"{name} was never answered")
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
            "Fresh processes, from their start to their end, in shuffled order. The first two ask a worker whose job "
            "does nothing, so that what is measured is the command; the next two get whole answers without a model "
            "from a store of 1,000 memories, one of them to a host's native event. The others ask nobody: they show "
            "what Python and a Redis client cost to start."
        ),
        checks=(
            *latency_checks("`meeseeks-hook`, a fresh process, there and back", series[SCRIPT], **LIMITS),
            *latency_checks("`python -I -S hooks/shim.py`, the same", series[SHIM], **LIMITS),
            *latency_checks(
                "`meeseeks-hook claude-code` with a whole answer, the same", series[NATIVE_WHOLE], **LIMITS
            ),
        ),
        series=(*series.values(), *processor),
        notes=(_comparison(spent), _unanswered(spent, finished)),
        ranges=(
            RangeChart(
                name="latency",
                title="A fresh process, start to end",
                series=tuple(series),
                limits={"p50 target": LIMITS["p50"]},
            ),
        ),
    )


def _comparison(spent: dict[str, list[float]]) -> str:
    return (
        f"Medians: a process that only imports redis takes {ratio(spent[REDIS], spent[SCRIPT]):.1f} times as long "
        f"as `meeseeks-hook` with its answer, and {ratio(spent[REDIS], spent[SHIM]):.1f} times as long as the file "
        f"run by itself, which takes {ratio(spent[SHIM], spent[BARE_ISOLATED]):.1f} times as long as Python takes "
        "to start and end."
    )


def _unanswered(spent: dict[str, list[float]], finished: dict[str, list[Finished]]) -> str:
    missing = "; ".join(f"{name}: {len(finished[name]) - len(spent[name])} of {len(finished[name])}" for name in ASKING)
    return (
        f"Processes that ended in time without an answer, or natively without a block, and are not counted: {missing}."
    )
