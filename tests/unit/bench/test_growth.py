"""The benchmark of growth: what it measures, and its section in the documentation."""

from pathlib import Path

import pytest

from bench.corpus import memories, tenants
from bench.growth import FULL, MOST, USUAL, cases
from bench.measure import Conditions, Environment, Report, Result
from bench.options import Options
from bench.processes import BenchError
from bench.report import with_section
from bench.workers import VARIABLE
from tests.support.paths import ROOT

CALM = Conditions(load=0.1, core_share=1.0)
REPORT = Report(
    result=Result(name="growth", title="Growth", method="How it was measured.", checks=(), series=()),
    quick=False,
    started_at="2026-11-29 12:00 UTC",
    seconds=1.0,
    environment=Environment(cpu="a processor", cores=2, system="Linux", python="3.11", packages={}),
    before=CALM,
    after=CALM,
)


def test_a_server_is_measured_only_if_named_and_up_to_a_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert cases(Options(tmp_path)) == USUAL
    assert cases(Options(tmp_path, full=True)) == FULL

    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:6333")
    everything = cases(Options(tmp_path, full=True))
    assert [(case.memories, case.owners) for case in everything if case.server] == [
        (case.memories, case.owners) for case in FULL
    ]

    monkeypatch.setenv(MOST, "10000")
    some = cases(Options(tmp_path, full=True))
    assert [case.memories for case in some if case.server] == [1_000, 10_000]
    assert [case for case in some if not case.server] == list(FULL)


@pytest.mark.parametrize("most", ["many", "1e5", "-1"])
def test_a_size_that_is_no_number_is_rejected(most: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:6333")
    monkeypatch.setenv(MOST, most)
    with pytest.raises(BenchError, match="QDRANT_MOST: not a number of memories"):
        cases(Options(tmp_path))


def test_memories_of_a_tenant_are_linked_to_its_own_only() -> None:
    first, second = list(memories(300)), list(memories(300, first=300))

    assert list(memories(600))[:300] == first
    assert not {memory.id for memory in first} & {memory.id for memory in second}
    for own in (first, second):
        targets = {relation.target for memory in own for relation in memory.relations}
        assert targets
        assert targets <= {memory.id for memory in own}
    assert len(set(tenants(1_000))) == 1_000


def test_only_the_section_of_the_benchmark_is_replaced() -> None:
    page = "# Scaling\n\nBefore.\n\n## Growth\n\nOld.\n\n### Old, too\n\n## Memory\n\nAfter.\n"

    made = with_section(page, REPORT)
    assert made.startswith("# Scaling\n\nBefore.\n\n## Growth\n\nHow it was measured.\n")
    assert made.endswith("12:00 UTC, 1 s._\n\n## Memory\n\nAfter.\n")
    assert "Old" not in made
    assert 'make bench ARGS="growth"\n' in made
    assert 'make bench ARGS="growth --full"\n' in with_section(page, REPORT.model_copy(update={"full": True}))
    assert with_section(made, REPORT) == made
    with pytest.raises(BenchError, match="no section Growth"):
        with_section("# Scaling\n", REPORT)


def test_the_page_has_the_section() -> None:
    page = (ROOT / "docs/scaling.md").read_text(encoding="utf-8")
    made = with_section(page, REPORT)
    assert len(made) < len(page)
    assert "\n## On paper: 10,000 answers a second\n" in made
