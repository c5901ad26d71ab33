"""What `meeseeks doctor` finds, and how it is told."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import typer

from .output import print_json, say, show, table


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    ok: bool
    detail: str


def report(checks: Sequence[Check], *, as_json: bool) -> None:
    """Tell the findings; ends the command with exit code 1 when something is wrong."""
    healthy = all(check.ok for check in checks)
    if as_json:
        print_json({"healthy": healthy, "checks": [asdict(check) for check in checks]})
    else:
        show(table(None, ["check", "", "finding"], [[c.name, "ok" if c.ok else "FAILED", c.detail] for c in checks]))
        say("all is well" if healthy else "something is wrong")
    if not healthy:
        raise typer.Exit(1)
