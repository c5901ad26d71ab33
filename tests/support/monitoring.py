"""The dashboard and the rules of `deploy/`, with the variables of Grafana filled in."""

import json
import re
from typing import Any

import yaml

from tests.support.paths import ROOT

RULES: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus/meeseeks.yaml").read_text(encoding="utf-8"))
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/meeseeks.json").read_text(encoding="utf-8"))

VARIABLES = {"$__rate_interval": "5m", "$job": ".*"}

_rules = [rule for group in RULES["groups"] for rule in group["rules"]]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for rule in _rules if "alert" in rule}
RECORDED: dict[str, str] = {rule["record"]: rule["expr"] for rule in _rules if "record" in rule}


def filled(expression: str) -> str:
    """Return an expression of the dashboard as Grafana sends it."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def with_recorded(expression: str) -> str:
    """Return an expression with the definitions of the series that rules record."""
    for name, definition in RECORDED.items():
        expression = re.sub(rf"\b{name}\b", f"({definition})", expression)
    return expression


SHOWN = {
    f"{panel['title']} {target['refId']}": filled(target["expr"])
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}
WATCHED = {name: with_recorded(rule["expr"]) for name, rule in ALERTS.items()}
EXPRESSIONS: dict[str, str] = {**RECORDED, **WATCHED, **SHOWN}


def whatever_came_of_it(expression: str) -> str:
    """Return the expression for all results: some, such as failures, a service in good health does not have."""
    return re.sub(r',?\b(outcome|reason|degraded|result|status)(=~|!=|=)"[^"]*"', "", expression)
