"""Texts for readers use short, usual words: none of the phrases that readers stumbled over comes back."""

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "pyproject.toml", *(ROOT / "docs").glob("*.md"), *(ROOT / "prompts").rglob("*.md")]
SOURCES = [path for folder in ("worker", "hooks") for path in (ROOT / folder).rglob("*.py")]
STUMBLED_OVER = (
    *(
        "arrives by itself",
        "ought to remember",
        "the most it may ever take",
        "rather nothing than",
        "nothing has to be",
    ),
    *("some tens of milliseconds", "rendered verbatim", "precision goes before recall", "they measure nothing"),
    *("the judge that ships", "in no order that means anything", "comes out otherwise", "from which one on"),
    *("what is not said stays", "what to paste where", "a name it is about", "the settings say so by default"),
    *(
        "does without",
        "known before",
        "sets another one against",
        "say yes under",
        "nothing to say",
        "cannot be told what",
    ),
    *(
        "what is wrong is said",
        "what is said for",
        "orders, never rescues",
        "somebody else's choice",
        "never the model's to say",
    ),
)


def said(path: Path) -> str:
    """The words of a file, whatever marks and lines are between them."""
    return " ".join(re.sub(r"[`*\"\n]+|\s#", " ", path.read_text(encoding="utf-8")).split()).casefold()


@pytest.mark.parametrize("paths", [PAGES, SOURCES], ids=["pages", "sources"])
def test_no_phrase_that_readers_stumbled_over_is_used(paths: list[Path]) -> None:
    texts = {path: said(path) for path in paths}
    assert len(texts) > 30
    assert [(path.name, phrase) for path, text in texts.items() for phrase in STUMBLED_OVER if phrase in text] == []
