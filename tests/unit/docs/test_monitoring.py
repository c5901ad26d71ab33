"""The dashboard and the alerts read metrics, labels and values that there are, and every expression returns data."""

import asyncio
import re
from itertools import combinations, product
from typing import Any

import pytest

from hooks.contract import Engine, InjectedItem, InjectionResult, Outcome, Reason
from tests.support.monitoring import ALERTS, DASHBOARD, EXPRESSIONS, RECORDED, RULES, SHOWN, WATCHED
from tests.support.paths import ROOT
from tests.support.promql import NAME, Page, page_of, result, selectors
from worker.domain.deadline import Deadline
from worker.domain.errors import StoreError
from worker.domain.operation import JsonObject, Operation
from worker.operations.client import QueueState
from worker.operations.metrics import Metrics

DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
PANELS = DASHBOARD["panels"]
UNITS = {"short", "percentunit", "reqps", "s", "bytes"}


@pytest.fixture(scope="module")
def page() -> Page:
    """Metrics in which everything has happened that can be counted."""
    return asyncio.run(page_of_all())


async def page_of_all() -> Page:
    metrics = Metrics()
    metrics.queue(QueueState(3, alive=True))
    metrics.store(7)
    for outcome, engine, degraded in product(Outcome, Engine, (False, True)):
        for reason in (None, *Reason):
            item = InjectedItem(id="m", type="fact", text="text")
            stages = {"search": 1.0}
            fields: dict[str, Any] = {"outcome": outcome, "engine": engine, "degraded": degraded, "reason": reason}
            metrics.injected(InjectionResult(**fields, items=(item,), stages=stages, elapsed_ms=2.0))
    for method, status in product(("GET", "POST"), (200, 404, 503)):
        metrics.requested(method, "/v1/inject", status, 0.1)
    for word in ("committed", "gone", "late", "unknown"):
        metrics.delivered(word)
    await _run_operations(metrics)
    return page_of(metrics.text().decode())


async def _run_operations(metrics: Metrics) -> None:
    async def run(request: JsonObject, deadline: Deadline) -> JsonObject:
        if request.root:
            raise StoreError("down")
        return request

    handler = metrics.timed({"any": Operation("any", JsonObject, JsonObject).bind(run)})["any"]
    await handler.run(JsonObject({}), Deadline.after(1))
    with pytest.raises(StoreError):
        await handler.run(JsonObject({"fail": True}), Deadline.after(1))


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_returns_data(name: str, page: Page) -> None:
    expression = EXPRESSIONS[name]
    found = result(expression, page)
    assert found or expression.startswith("absent("), expression
    for selector in selectors(expression):
        labels = page.labels_of(selector.name)
        assert {matcher.name for matcher in selector.matchers.matchers} <= labels, str(selector)


@pytest.mark.parametrize("name", [name for name, rule in ALERTS.items() if "absent" not in rule["expr"]])
async def test_an_alert_is_silent_without_metrics(name: str) -> None:
    assert result(WATCHED[name], Page(frozenset())) == frozenset()


@pytest.mark.parametrize("wrong", ["sum(rate(meeseeks_injections_total))", "rate(x[5m]", "none_such(x)"])
def test_a_wrong_expression_is_noticed(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        selectors(wrong)


def test_wrong_names_labels_and_values_are_noticed(page: Page) -> None:
    for wrong in (
        "meeseeks_none_such",
        'meeseeks_injections_total{outcome="none_such"}',
        'meeseeks_injections_total{none_such="x"}',
        "sum by (stage) (meeseeks_stage_seconds_sum) / sum by (le) (meeseeks_stage_seconds_count)",
    ):
        assert result(wrong, page) == frozenset()


def test_rules_have_the_fields_that_prometheus_knows() -> None:
    assert set(RULES) == {"groups"}
    assert len({group["name"] for group in RULES["groups"]}) == len(RULES["groups"])
    for group in RULES["groups"]:
        assert set(group) == {"name", "rules"}
    for name, alert in ALERTS.items():
        assert set(alert) == {"alert", "expr", "for", "labels", "annotations"}, name
        assert set(alert["annotations"]) == {"summary", "description"}, name
        assert alert["labels"]["severity"] in {"critical", "warning"}
        assert re.fullmatch(r"\d+m", alert["for"])


def test_alerts_point_to_panels_and_pages_that_there_are() -> None:
    titles = {panel["title"] for panel in PANELS}
    for alert in ALERTS.values():
        text = alert["annotations"]["description"]
        assert set(re.findall(r'panel "([^"]+)"', text)) <= titles
        assert set(re.findall(r"docs/([\w.-]+\.md)", text)) <= set(DOCS)


def test_every_alert_is_explained_and_no_other() -> None:
    assert set(re.findall(r"^\| `(Meeseeks\w+)`", DOCS["monitoring.md"], re.MULTILINE)) == set(ALERTS)


def test_the_scaling_page_has_the_recorded_rule() -> None:
    for name, expression in RECORDED.items():
        assert f"record: {name}\n        expr: {expression}\n" in DOCS["scaling.md"]


def test_every_metric_in_the_docs_exists_and_every_metric_is_shown(page: Page) -> None:
    published = {name for name in page.values(NAME) if name.startswith("meeseeks_")}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in published}
    for name, text in DOCS.items():
        told = {word for word in re.findall(r"\bmeeseeks_\w+", text) if re.search(r"_(total|seconds|up|alive)$", word)}
        assert told - families - published - set(RECORDED) == set(), name
    shown = {selector.name for expression in SHOWN.values() for selector in selectors(expression)}
    assert families <= {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}


def test_legends_name_labels_that_the_expression_keeps() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            by = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))))
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= (by or {"instance"}), panel["title"]


def test_the_dashboard_can_be_imported_anywhere() -> None:
    assert DASHBOARD["schemaVersion"] >= 39
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "job"}
    for panel in PANELS:
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
        assert panel["type"] in {"stat", "timeseries"}
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["description"].endswith(".")
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_stand_beside_each_other() -> None:
    cells = [
        {(x, y) for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])}
        for p in (panel["gridPos"] for panel in PANELS)
    ]
    assert all(x < 24 for cell in cells for x, _ in cell)
    assert not any(one & other for one, other in combinations(cells, 2))
