"""The benchmarks run from the command line and save consistent results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.corpus import memories, messages
from bench.measure import Check, Series, interleaved, percentile
from tests.support.paths import ROOT

PNG = b"\x89PNG\r\n\x1a\n"


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=170)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_quick_run_prints_json_and_saves_results_and_charts(tmp_path: Path) -> None:
    done = bench("imports", "queue", "--quick", "--json", "--out", str(tmp_path))

    assert done.returncode == 0, done.stderr
    reports = {report["result"]["name"]: report for report in json.loads(done.stdout)}
    assert list(reports) == ["imports", "queue"]
    for name, report in reports.items():
        assert json.loads((tmp_path / f"{name}.json").read_text()) == report
        assert report["quick"] is True
        assert report["environment"]["cores"] >= 1
        assert report["before"]["load"] >= 0
        assert all(check["passed"] == (check["measured"] <= check["limit"]) for check in report["result"]["checks"])
        charts = list(tmp_path.glob(f"{name}-*.png"))
        assert charts
        assert all(chart.read_bytes().startswith(PNG) for chart in charts)
    series = {entry["name"]: entry for entry in reports["queue"]["result"]["series"]}
    ours, theirs = series["meeseeks: one caller"], series["arq, defaults: one caller"]
    assert ours["count"] > theirs["count"] > 0
    assert 0 < ours["p50"] < 500 <= theirs["p50"], "arq's caller looks at once, and then 500 ms later"
    assert all(e["least"] <= e["p50"] <= e["p95"] <= e["p99"] <= e["most"] for e in series.values())

    published = bench("--publish", "--out", str(tmp_path))
    assert published.returncode == 1
    assert "no results of deterministic, hook_command, http, model" in published.stderr


def test_an_unknown_name_is_rejected() -> None:
    done = bench("speed")

    assert done.returncode == 2
    assert "unknown: speed" in done.stderr


def test_percentiles_are_nearest_ranks() -> None:
    values = [float(value) for value in range(1, 101)]

    assert [percentile(values[::-1], share) for share in (0.0, 0.5, 0.95, 0.99, 1.0)] == [1, 50, 95, 99, 100]
    assert Series.of("one", [3.14159]).p99 == 3.142


def test_a_check_compares_in_its_own_direction() -> None:
    assert Check(name="time", measured=4.0, limit=4.0).passed
    assert not Check(name="time", measured=4.1, limit=4.0).passed
    assert not Check(name="rate", measured=99.0, limit=100.0, unit="/s", at_least=True).passed


def test_interleaving_runs_every_variant_once_per_round() -> None:
    order = list(interleaved("abc", 50))

    assert all(sorted(order[start : start + 3]) == ["a", "b", "c"] for start in range(0, 150, 3))
    assert len({tuple(order[start : start + 3]) for start in range(0, 150, 3)}) == 6


def test_generated_memories_are_reproducible_and_distinct() -> None:
    texts = [memory.content for memory in memories(2000)]

    assert texts == [memory.content for memory in memories(2000)]
    assert len(set(texts)) > 1950
    asked = [message for message, _ in zip(messages(), range(500), strict=False)]
    assert len(set(asked)) == 500
