"""A short run of `make chaos`: a part of the faults, and every invariant."""

import pytest

from tests.chaos.calls import INVARIANTS
from tests.chaos.run import run

pytestmark = pytest.mark.slow

FAULTS = ("worker stopped (SIGSTOP)", "connections to Redis reset", "Redis full", "model hangs", "Redis frozen")


async def test_whatever_breaks_no_invariant_does() -> None:
    found = (await run(9.0, 30.0, FAULTS, fault_s=0.5)).as_json()
    assert {name: one["violations"] for name, one in found["invariants"].items()} == dict.fromkeys(INVARIANTS, 0)
    assert all(one["checked"] for one in found["invariants"].values())
    assert len(found["faults"]) >= 2
    assert found["calls"] >= 200
    assert {"injected", "queue_unavailable"} <= set(found["outcomes"])
