"""The index leads to every page, and the glossary is short and says what each word means."""

import re

from tests.support.paths import ROOT

DOCS = ROOT / "docs"
INDEX = (DOCS / "README.md").read_text(encoding="utf-8")
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")
MOST_WORDS = 25


def test_the_index_has_four_parts_that_lead_to_every_page() -> None:
    parts = re.split(r"(?m)^## ", INDEX)[1:]
    assert [part.split(":")[0] for part in parts] == ["Tutorials", "How to", "Reference", "Explanation"]
    linked = re.findall(r"\]\(([\w-]+\.md)\)", "".join(parts))
    assert sorted(set(linked)) == sorted(path.name for path in DOCS.glob("*.md") if path.name != "README.md")
    assert len(linked) == len(set(linked)), "each page is in one part"


def test_the_glossary_explains_few_words_each_once_in_order() -> None:
    rows = re.findall(r"(?m)^\| ([a-z ]+) \| (.+) \|$", GLOSSARY)[1:]
    words = [word for word, _ in rows]
    assert 20 <= len(words) <= MOST_WORDS
    assert words == sorted(set(words))
    assert all(len(meaning) > 20 for _, meaning in rows)
