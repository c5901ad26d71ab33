"""Runs what the documentation shows."""

import ast
import asyncio
import re
from types import CodeType
from typing import Any

from tests.support.paths import ROOT

DOCS = ROOT / "docs"


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page that are written in a language, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_python(page: str, names: dict[str, Any]) -> int:
    """Run the examples of a page in Python one after the other, `await` at the top level too; how many there are.

    `names` are what they find, and then hold what they have left.
    """

    async def run(example: str) -> None:
        code: CodeType = compile(example, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        pending = eval(code, names)
        if pending is not None:
            await pending

    examples = blocks(page, "python")
    for example in examples:
        asyncio.run(run(example))
    return len(examples)
