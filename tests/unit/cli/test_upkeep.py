"""What `meeseeks upkeep` says of a run in the end."""

from datetime import UTC, datetime
from typing import Any

import pytest

from worker.cli.memory.upkeep import ending
from worker.domain.upkeep import RunState, UpkeepRun

RUN = UpkeepRun(id="u1", at=datetime(2026, 11, 29, tzinfo=UTC), memories=3)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"state": RunState.RUNNING, "phase": "comparing", "done": 40, "total": 90},
            "still running: comparing, 40 of 90",
        ),
        ({"state": RunState.RUNNING}, "still running: reading"),
        (
            {"state": RunState.FAILED, "error": "the store is away", "apply": True},
            "upkeep failed: the store is away; run the command again to go on",
        ),
        ({"state": RunState.DONE}, "3 memories read in 0.0 s: nothing to put in order"),
    ],
)
def test_only_a_run_that_is_done_says_that_nothing_is_to_do(fields: dict[str, Any], said: str) -> None:
    assert ending(RUN.model_copy(update=fields).model_dump(mode="json")) == said
