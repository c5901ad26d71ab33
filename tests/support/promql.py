"""What PromQL expressions read, and which series they would return, as far as that follows from a page of metrics."""

from collections.abc import Iterable
from dataclasses import dataclass
from re import fullmatch
from typing import Any

import promql_parser as promql
from prometheus_client.parser import text_string_to_metric_families
from promql_parser import MatchOp

Labels = frozenset[tuple[str, str]]
NAME = "__name__"
TARGET = {"job": "meeseeks", "instance": "worker-1:8787"}
"""Labels that Prometheus adds to what it scrapes."""

SCALARS = (promql.NumberLiteral, promql.StringLiteral)


@dataclass(frozen=True)
class Page:
    """A page of metrics as Prometheus sees it, each series as its labels."""

    series: frozenset[Labels]

    def values(self, label: str) -> set[str]:
        return {value for one in self.series for name, value in one if name == label}

    def labels_of(self, metric: str) -> set[str]:
        return {name for one in self.series if (NAME, metric) in one for name, _ in one}


def page_of(text: str) -> Page:
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return Page(frozenset(frozenset({NAME: one.name, **one.labels, **TARGET}.items()) for one in samples))


def selectors(expression: str) -> list[promql.VectorSelector]:
    """Return every selector of a metric. Raise `ValueError` if Prometheus would refuse the expression."""
    found: list[promql.VectorSelector] = []

    def visit(node: promql.Expr) -> None:
        if isinstance(node, promql.VectorSelector):
            found.append(node)

    promql.walk(promql.parse(expression), visit)
    return found


def result(expression: str, page: Page) -> frozenset[Labels]:
    """Return the labels of each series that the expression returns, if every rate and comparison lets it through."""
    return frozenset(_result(promql.parse(expression), page))


def _result(node: Any, page: Page) -> set[Labels]:
    if isinstance(node, promql.VectorSelector):
        return {one for one in page.series if _matches(node, dict(one))}
    if isinstance(node, promql.MatrixSelector):
        return _result(node.vector_selector, page)
    if isinstance(node, promql.ParenExpr):
        return _result(node.expr, page)
    if isinstance(node, promql.AggregateExpr):
        assert node.modifier is None or "By" in str(node.modifier.type), "only `by` is understood"
        kept = set(node.modifier.labels) if node.modifier else set()
        return {_only(one, kept) for one in _result(node.expr, page)}
    if isinstance(node, promql.Call):
        return _called(node, page)
    assert isinstance(node, promql.BinaryExpr), f"{type(node).__name__} is not understood"
    return _combined(node, page)


def _called(node: promql.Call, page: Page) -> set[Labels]:
    if node.func.name == "vector":
        return {frozenset()}
    if node.func.name == "absent":
        return set() if _result(node.args[0], page) else {frozenset()}
    (vector,) = [argument for argument in node.args if not isinstance(argument, SCALARS)]
    dropped = {NAME, "le"} if node.func.name == "histogram_quantile" else {NAME}
    return {_without(one, dropped) for one in _result(vector, page)}


def _combined(node: promql.BinaryExpr, page: Page) -> set[Labels]:
    left, right = (None if isinstance(side, SCALARS) else _result(side, page) for side in (node.lhs, node.rhs))
    if left is None or right is None:
        return left or right or set()
    operator = str(node.op)
    if operator == "or":
        return left | right
    return {_without(one, {NAME}) for one in left} & {_without(one, {NAME}) for one in right}


def _matches(selector: promql.VectorSelector, labels: dict[str, str]) -> bool:
    if selector.name is not None and labels[NAME] != selector.name:
        return False
    return all(_matched(matcher, labels.get(matcher.name, "")) for matcher in selector.matchers.matchers)


def _matched(matcher: promql.Matcher, value: str) -> bool:
    if matcher.op in (MatchOp.Equal, MatchOp.NotEqual):
        return (value == matcher.value) is (matcher.op == MatchOp.Equal)
    return bool(fullmatch(matcher.value, value)) is (matcher.op == MatchOp.Re)


def _only(labels: Labels, kept: Iterable[str]) -> Labels:
    return frozenset(pair for pair in labels if pair[0] in set(kept))


def _without(labels: Labels, dropped: Iterable[str]) -> Labels:
    return frozenset(pair for pair in labels if pair[0] not in set(dropped))
