"""The benchmarks run from the command line and save consistent results."""

import json
import logging
import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from bench.command import ALL, main, module_of
from bench.corpus import memories, messages
from bench.measure import Check, Series, interleaved, percentile
from bench.outside import peer
from tests.support.paths import ROOT

PNG = b"\x89PNG\r\n\x1a\n"


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=170)


def bench_here(*arguments: str) -> int:
    """Run it in this process, which spares loading it again."""
    log = logging.getLogger("hooks")
    level = log.level
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["bench", *arguments])
        try:
            return main()
        finally:
            log.setLevel(level)


def report_of(out: Path, *arguments: str) -> dict[str, Any]:
    """Run one benchmark, and return its report."""
    with redirect_stdout(StringIO()) as printed:
        assert bench_here(*arguments, "--json", "--out", str(out)) == 0
    (report,) = json.loads(printed.getvalue())
    return dict(report)


@pytest.mark.slow
def test_a_quick_run_prints_json_and_saves_results_and_charts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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

    assert bench_here("--publish", "--out", str(tmp_path)) == 1
    assert "no results of deterministic, hook_command, http, model" in capsys.readouterr().err


@pytest.mark.slow
def test_a_soak_says_of_everything_how_it_grew(tmp_path: Path) -> None:
    report = report_of(tmp_path, "soak", "--quick")

    series = {entry["name"]: entry["values"] for entry in report["result"]["series"]}
    assert all(value > 0 for values in series.values() for value in values)
    assert series["resident memory"][0] > series["memory of its own"][0]
    assert series["keys in Redis"][0] < series["keys in Redis"][-1], "receipts are kept"
    grown = {check["name"]: check["measured"] for check in report["result"]["checks"]}
    assert grown["keys in Redis, last third by middle third"] > 1.0
    assert {path.name for path in tmp_path.glob("*.png")} == {"soak-memory.png", "soak-latency.png"}


@pytest.mark.slow
def test_growth_is_measured_from_one_store_to_the_next(tmp_path: Path) -> None:
    report = report_of(tmp_path, "growth", "--quick")

    answers, sizes = report["result"]["tables"]
    stores = ["embedded store, 100 memories", "embedded store, 2 tenants, 200 memories"]
    assert [row[0] for row in answers["rows"]][:2] == [row[0] for row in sizes["rows"]][:2] == stores
    for row in answers["rows"]:
        assert all(float(value) > 0 for value in row[1:6]), row
        assert row[6].startswith("0 of "), row
    for row in sizes["rows"][:2]:
        assert all(float(value.replace(",", "")) > 0 for value in row[1:]), row
        assert float(row[2].replace(",", "")) > float(row[1].replace(",", "")), "files are resident, too"
    series = {entry["name"]: entry["p50"] for entry in report["result"]["series"]}
    assert 0 < series[f"{stores[0]}: search"] < series[stores[0]]
    expected = {"growth-latency.png", "growth-rate.png", "growth-memory.png"}
    assert {path.name for path in tmp_path.glob("*.png")} == expected


@pytest.mark.slow
def test_every_page_is_timed_and_answers_beside_them(tmp_path: Path) -> None:
    report = report_of(tmp_path, "pages", "--quick")

    series = {entry["name"]: entry["p50"] for entry in report["result"]["series"]}
    assert {"overview", "requests, page 20", "one memory", "answers"} < series.keys()
    assert all(value > 0 for value in series.values())
    slowest = report["result"]["checks"][0]
    pages = {name: value for name, value in series.items() if not name.startswith("answers")}
    assert slowest["measured"] == round(max(pages.values()), 1)


@pytest.mark.slow
def test_data_sets_by_other_authors_are_measured_from_a_folder(tmp_path: Path) -> None:
    report = report_of(tmp_path, "outside", "--data", str(ROOT / "tests/data/outside"))

    chosen, order, given = report["result"]["tables"]
    assert chosen["title"] == "PrecisionMemBench, content only: 7 beliefs, 8 cases, 4 with 5 expected ids"
    ours = {row[0]: row[1:] for row in chosen["rows"] if not row[0].startswith("mem0")}
    assert list(ours) == [
        *(f"relevance model, {profile}" for profile in ("cautious", "balanced", "generous")),
        "search thresholds alone",
    ]
    assert {row[4] for row in ours.values()} == {"0"}, "nothing outdated, foreign or out of scope"
    assert float(ours["relevance model, generous"][1]) > 0
    assert [row[0] for row in given["rows"]] == list(ours)
    shares = {row[0]: [float(share) for share in row[1:]] for row in order["rows"]}
    assert shares["ours, order of the search"][0] >= 0.5
    assert all(values == sorted(values) for values in shares.values())
    assert ("mem0" in shares) == (peer.installed() is not None)
    assert any("peer not installed" in note for note in report["result"]["notes"]) == (peer.installed() is None)
    assert "| relevance model, balanced |" in (tmp_path / "outside.md").read_text()


@pytest.mark.parametrize("arguments", [(), ("--data", "no-such-folder")])
def test_a_folder_without_data_sets_is_rejected(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_here("outside", *arguments) == 1
    assert "docs/outside-sets.md" in capsys.readouterr().err


@pytest.mark.parametrize("program", ["bench", "training"])
def test_nothing_is_reported_to_the_maker_of_a_library(program: str, tmp_path: Path) -> None:
    """The library notes the id of the device in the home folder before it reports."""
    variables = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    variables |= {"HOME": str(tmp_path), "MPLCONFIGDIR": mpl.get_cachedir()}  # fonts are listed there already
    subprocess.run([sys.executable, "-m", program, "--help"], cwd=ROOT, env=variables, capture_output=True, check=True)
    assert not list(tmp_path.rglob("*onnxruntime*"))


def test_an_unknown_name_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench_here("speed")
    assert ended.value.code == 2
    assert "unknown: speed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ALL)
def test_a_benchmark_has_the_name_that_it_is_run_by(name: str) -> None:
    assert name == module_of(name).NAME


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
