"""What templates and vendored files may contain."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from worker.console.rendering import TEMPLATES
from worker.console.static_files import FOLDER, StaticFiles

FILES = sorted(TEMPLATES.rglob("*.html"))
FORBIDDEN = {
    "unescaped text": r"\|\s*safe\b|autoescape\s+false|Markup",
    "a script in an attribute": r"\shx-on|\son[a-z]+\s*=(?!=)|[\"\x27]js:|javascript:",
    "a style in the page": r"\sstyle\s*=|<style",
    "a script in the page": r"<script(?![^>]*\ssrc=)",
    "a condition of a trigger": r'hx-trigger="[^"]*\[',
    "values from expressions": r"hx-(vals|vars|headers|request)",
    "an attribute without quotes": r"\s[a-z-]+=\{\{",
    "a file of another site": r'(?:src|href|action|hx-[a-z]+)="(?:https?:)?//',
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_templates_hold_nothing_that_the_policy_forbids(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not {what for what, pattern in FORBIDDEN.items() if re.search(pattern, text)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_form_that_changes_something_has_its_token(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    forms = re.findall(r"<form\b[^>]*(?:method=\"post\"|hx-post)[^>]*>(.*?)</form>", text, re.DOTALL)
    assert all("{{ hidden(" in form for form in forms)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("unescaped text", "{{ data.text | safe }}"),
        ("a script in an attribute", '<p onclick="x()">'),
        ("a style in the page", '<p style="color: red">'),
        ("a script in the page", "<script>x()</script>"),
        ("a condition of a trigger", '<p hx-trigger="click[ctrlKey]">'),
        ("an attribute without quotes", "<p id={{ data.id }}>"),
        ("a file of another site", '<script src="https://cdn.example/x.js"></script>'),
    ],
)
def test_the_patterns_find_what_they_are_for(what: str, text: str) -> None:
    assert re.search(FORBIDDEN[what], text)


@pytest.mark.parametrize(
    ("folder", "listed"),
    [(FOLDER, FOLDER / "vendored.json"), (ROOT / "tests/data", ROOT / "tests/data/vendor/vendored.json")],
    ids=["console", "tests"],
)
def test_files_of_others_are_listed_and_unchanged(folder: Path, listed: Path) -> None:
    entries = json.loads(listed.read_text(encoding="utf-8"))
    for entry in entries:
        assert hashlib.sha256((folder / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
        assert all(entry[name] for name in ("package", "version", "licence"))
        assert entry["source"].startswith("https://www.npmjs.com/package/")
    there = {path.relative_to(folder).as_posix() for path in (folder / "vendor").iterdir() if path.suffix != ".json"}
    assert there == {entry["file"] for entry in entries}


def test_the_address_of_a_file_changes_with_its_content(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("one", encoding="utf-8")
    before = StaticFiles(tmp_path).url("a.css")
    (tmp_path / "a.css").write_text("two", encoding="utf-8")
    assert before != StaticFiles(tmp_path).url("a.css")
