"""Every promise of the page on security names tests that exist."""

import ast
import re

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[^`]+\.py(?:::\w+)?)`", PAGE)))


def rows(heading: str) -> list[str]:
    """Return the rows of the table under a heading."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def has_test(named: str) -> bool:
    """Return whether a file has a test, or the one that is named."""
    path, _, name = named.partition("::")
    if not (ROOT / path).is_file():
        return False
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(found == name or (not name and found.startswith("test_")) for found in functions)


@pytest.mark.parametrize("named", NAMED)
def test_a_named_test_exists(named: str) -> None:
    assert has_test(named)


def test_a_missing_test_is_noticed() -> None:
    assert not has_test("tests/unit/docs/test_security_docs.py::test_that_nobody_wrote")
    assert not has_test("tests/unit/docs/test_of_nothing.py")


@pytest.mark.parametrize("heading", ["Promises", "What is fuzzed"])
def test_every_row_names_a_test(heading: str) -> None:
    found = rows(heading)
    assert len(found) >= 8
    assert [row for row in found if "`tests/" not in row.rpartition("|")[0].rpartition(" | ")[2]] == []
