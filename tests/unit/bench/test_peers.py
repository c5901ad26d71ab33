"""Other memory systems: what a task may see of their results, their scores, and what a process exchanges."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from bench.outside.scoring import Ranked
from bench.peers import measuring, process
from bench.peers.benchmark import Row, wins
from bench.peers.exchange import QUERIES, TEXTS, load, load_sparse
from bench.peers.quality import Quality, of_peer, permitted, ranked
from bench.peers.systems import PEERS
from hooks.contract import InjectionRequest, Scope
from tests.support.peer_texts import texts
from worker.domain.memory import Memory, MemoryScope
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def memory(key: str, **fields: object) -> Memory:
    return Memory.model_validate({"id": key, "content": f"The text of {key}.", "created_at": NOW - HOUR, **fields})


def task(key: str, *essential: str) -> LabelledTask:
    scope = Scope(tenant="w", user="mara", agent="helper", project="harbour")
    request = InjectionRequest(
        session_id=key, turn_id=key, message=f"Task {key}", agent_id="helper", scope=scope, now=NOW
    )
    return LabelledTask(key, "any", request, frozenset(essential), frozenset(), frozenset())


def world(*memories: Memory, tasks: tuple[LabelledTask, ...] = ()) -> LabelledWorld:
    return LabelledWorld("w", memories, tasks, ("team",))


@pytest.mark.parametrize(
    ("fields", "seen"),
    [
        ({}, True),
        ({"scope": MemoryScope(user="mara", agent="helper", project="harbour")}, True),
        ({"scope": MemoryScope(user="team")}, True),
        ({"scope": MemoryScope(user="jonas")}, False),
        ({"scope": MemoryScope(agent="other")}, False),
        ({"scope": MemoryScope(project="other")}, False),
        ({"superseded_by": "new"}, False),
        ({"valid_until": NOW - HOUR}, False),
        ({"valid_until": NOW + HOUR}, True),
        ({"created_at": NOW + HOUR}, False),
    ],
)
def test_a_task_sees_what_is_its_own_and_of_its_time(fields: dict[str, object], seen: bool) -> None:
    asked = task("one")

    assert ("m" in permitted(world(memory("m", **fields), tasks=(asked,)), asked)) is seen


def test_results_that_a_filter_leaves_out_are_not_counted() -> None:
    asked = task("one", "right")
    place = world(memory("right"), memory("foreign", scope=MemoryScope(user="jonas")), tasks=(asked, task("two")))

    found = ranked(place, {"one": [("foreign", 0.9), ("right", 0.8)]})

    assert [one.ids for one in found] == [("right",), ()]


def test_a_peer_is_scored_with_a_threshold_and_without() -> None:
    found = [
        Ranked(task(str(number), "right"), (("right", 0.9), *((f"wrong {place}", 0.1) for place in range(9))))
        for number in range(4)
    ]

    scores = of_peer("Other", found)

    assert scores["Other, threshold fitted to the set"].precision == 1.0
    assert scores["Other, first 5"].precision == 0.2
    order, chosen = Quality({"Other": found}, scores).tables("4 tasks")
    assert order.rows == (("Other", "1.00", "1.00"),)
    assert [row[1] for row in chosen.rows] == ["1.00", "0.20"]


def row(label: str, rate: float, spent: float) -> Row:
    return Row(label, 1_000, rate, (spent,), 100.0, 2.0)


def test_the_best_of_every_measure_is_named_and_what_was_stopped_does_not_count() -> None:
    stopped = Row("C", 1_000, 9_999.0, (), 1.0, None)

    (note,) = wins([row("A", 1_500, 8.0), row("B", 900, 3.0), stopped])

    assert "stored a second: A" in note
    assert "search p50: B" in note
    assert stopped.cells == ("C", "1,000", "9,999", "stopped", "stopped", "1", "–")
    assert wins([row("A", 1.0, 1.0)]) == ()


class Remembering:
    """A system that finds everything it was given, newest first."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def add(self, keys: tuple[str, ...], texts: tuple[str, ...]) -> None:
        self.kept += keys

    def search(self, text: str, most: int) -> list[tuple[str, float]]:
        return [(key, 1.0) for key in reversed(self.kept)][:most]


def test_a_process_stores_everything_in_time_and_answers_every_query(capsys: pytest.CaptureFixture[str]) -> None:
    system = Remembering()

    assert process.fill(system, texts(*(f"w{number}" for number in range(70))), 10.0)["stored"] == 70
    assert process.fill(Remembering(), texts("a"), 0.0)["stored"] == 0
    done = process.search(system, texts("x", "y"), 2)
    assert done["found"] == [[("w69", 1.0), ("w68", 1.0)]] * 2
    assert len(done["spent"]) == 2
    assert capsys.readouterr().out == "ready\n"


def test_what_is_given_is_read_as_it_was_written(tmp_path: Path) -> None:
    measuring.write(tmp_path, texts("ferry", "harbour"), texts("boat"), keywords=True)

    given = load(tmp_path, TEXTS)
    assert (given.keys, given.texts) == (("ferry", "harbour"), ("about ferry", "about harbour"))
    assert given.vectors.tolist() == np.eye(2, 384).tolist()
    assert load(tmp_path, QUERIES).texts == ("about boat",)
    assert set(load_sparse(tmp_path)) == {"about ferry", "about harbour", "about boat"}


def test_peers_that_are_not_installed_have_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "PYTHON", tmp_path / "python")
    assert measuring.versions() == {}

    monkeypatch.setattr(measuring, "PYTHON", Path(sys.executable))
    assert "chroma" in PEERS
    assert "chroma" not in measuring.versions()
