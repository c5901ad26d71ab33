"""The page about HTTP names every endpoint, metric, setting and status that there is."""

import re

import pytest

from tests.support.paths import ROOT
from worker.api.app import REFUSALS, document
from worker.operations.metrics import Metrics
from worker.settings.service import ServiceSettings

PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")


def test_every_endpoint_is_explained_and_no_other() -> None:
    described = {(method.upper(), path) for path, methods in document()["paths"].items() for method in methods}
    told = set(re.findall(r"^\| `([A-Z]+) (/\S+)` \|", PAGE, re.MULTILINE))
    assert told == described | {("GET", "/openapi.json")}


def test_every_metric_is_explained_with_its_labels_and_no_other() -> None:
    labels = {
        metric._name + ("_total" if metric._type == "counter" else ""): set(metric._labelnames)
        for metric in Metrics().registry._names_to_collectors.values()
        if getattr(metric, "_name", "").startswith("meeseeks_")
    }
    assert set(re.findall(r"`(meeseeks_\w+)`", PAGE)) == set(labels)
    for name, cell in re.findall(r"^\| `(meeseeks_\w+)`[^|]*\| ([^|]*)\|", PAGE, re.MULTILINE):
        assert set(re.findall(r"`(\w+)`", cell)) == labels[name], name


@pytest.mark.parametrize("name", [name for name in ServiceSettings.model_fields if name.startswith("http_")])
def test_every_setting_is_explained(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("status", REFUSALS)
def test_every_status_is_explained(status: str) -> None:
    assert re.search(rf"^\|[ \d,]*\b{status}\b[ \d,]*\|", PAGE, re.MULTILINE)
