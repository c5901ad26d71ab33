"""The `meeseeks` command, in which a model writes cues without long waits; a program of `tests.support.forked`."""

from worker.bootstrap import cues
from worker.cli import app
from worker.operations.background_cues import Pace

PACE = Pace(first=0.05, every=0.1, quiet=0.0, lease=2.0)


def main() -> None:
    cues.PACE = PACE
    app()
