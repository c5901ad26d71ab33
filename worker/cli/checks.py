"""Findings of `meeseeks doctor`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import typer

from worker.settings.selection import Strategy
from worker.text.counts import counted

from .output import printed_as_json, say, show, table


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; `ms` is how long a hook usually takes."""

    name: str
    ok: bool
    detail: str
    ms: float | None = None


def report(checks: Sequence[Check]) -> None:
    """Print the findings; exit with code 1 if a check failed."""
    healthy = all(check.ok for check in checks)
    found = [{name: said for name, said in asdict(check).items() if said is not None} for check in checks]
    if not printed_as_json({"healthy": healthy, "checks": found}):
        show(table(None, ["check", "", "finding"], [[c.name, "ok" if c.ok else "FAILED", c.detail] for c in checks]))
        say("all checks passed" if healthy else "some checks failed; see the findings above")
    if not healthy:
        raise typer.Exit(1)


def what_decides(health: dict[str, Any]) -> str:
    """Return what chooses memories; a service that was started before an update does not say so."""
    return str(health.get("decides") or health["model"] or "the relevance model")


def model_in_words(model: str | None, decides: str, strategy: Strategy) -> str:
    """Return the model and what chooses memories if not the model; suggest one only if the strategy would ask it."""
    if model is None:
        return f"none: {decides} decides{' (set MEESEEKS_MODEL to use one)' if strategy.asks_model else ''}"
    return model if decides == model else f"{model}, but {decides} decides"


def cues_in_words(progress: dict[str, Any]) -> str:
    """Return how far the background has come with writing cues."""
    today = f"{progress['calls']} of {progress['most_calls']} calls today"
    if progress["last_run"] is None:
        return f"not written yet, {today}"
    last = datetime.fromisoformat(progress["last_run"])
    return f"{counted(progress['without_cues'] or 0)} without cues, last run {last:%Y-%m-%d %H:%M} UTC, {today}"


def captures_in_words(progress: dict[str, Any]) -> str:
    """Return what a model read of conversations today, and whether a limit stops it."""
    calls, most = progress["calls"], progress["most_calls"]
    tokens, most_tokens = progress["tokens"], progress["most_tokens"]
    cost, most_cost = progress.get("cost", 0.0), progress.get("most_cost")
    reached = calls >= most or tokens >= most_tokens or (most_cost is not None and cost >= most_cost)
    spent = "; the limit of today is reached" if progress["waiting"] and reached else ""
    dollars = (
        f", for ${cost:.2f}{f' of ${most_cost:.2f}' if most_cost is not None else ''}" if cost or most_cost else ""
    )
    used = f"{calls} of {most} calls and {tokens} of {most_tokens} tokens today{dollars}"
    return f"{used}, {progress['memories']} memories or proposals, {progress['waiting']} waiting{spent}"
