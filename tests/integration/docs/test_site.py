"""The documentation site has the navigation of the index, and its build fails at what a reader would miss."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

PAGES = {
    "README.md": "# Home\n\n[a file](deploy/stack.yaml), [a page](docs/first.md#a-part)\n",
    "CHANGELOG.md": "# Changes\n",
    "deploy/stack.yaml": "a: 1\n",
    "docs/README.md": "# Index\n\n## How to: do it\n\n- [first](first.md)\n- [home](../README.md#home)\n\n"
    "## Reference: look it up\n\n- [changes](../CHANGELOG.md)\n",
    "docs/first.md": "# First\n\n## A part\n\n[back](../README.md)\n",
}
FAULTS = {
    "[x](nowhere.md)": "'nowhere.md'",
    "[x](../deploy/nowhere.yaml)": "'../deploy/nowhere.yaml'",
    "[x](first.md#nowhere)": "'nowhere'",
    "[x](#nowhere-here)": "'nowhere-here'",
    "![x](nowhere.png)": "docs/nowhere.png",
    "![x](https://elsewhere.example/x.png)": "docs/bad.html loads https://elsewhere.example/x.png",
    "a page that no page leads to": "docs/bad.md: WARNING: document isn't included in any toctree",
}
"""What is wrong on a page, with what the build says of it."""


def built(folder: Path, pages: dict[str, str]) -> tuple[int, list[str]]:
    """Build a site of `pages` with the project's configuration; return the status and the complaints."""
    shutil.copytree(ROOT / "docs/site", folder / "docs/site")
    shutil.copy(ROOT / "docs/conf.py", folder / "docs/conf.py")
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "-c", "docs", "-d", "doctrees", ".", "site"]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.splitlines()


def test_the_index_is_the_navigation_and_files_are_copied(tmp_path: Path) -> None:
    assert built(tmp_path, PAGES) == (0, [])
    home = (tmp_path / "site/README.html").read_text(encoding="utf-8")
    sidebar = home[home.index("sidebar-tree") : home.index("</aside>")]
    shown = re.findall(r'class="caption-text">([^<]+)|<a class="reference internal" href="([^"]+)">', sidebar)
    assert [caption or link for caption, link in shown] == [
        *("Overview", "docs/README.html"),
        *("How to", "docs/first.html"),
        *("Reference", "CHANGELOG.html"),
    ]
    (copied,) = re.findall(r'href="(_downloads/[^"]+/stack\.yaml)"', home)
    assert (tmp_path / "site" / copied).read_text(encoding="utf-8") == "a: 1\n"


def test_the_build_fails_at_every_fault(tmp_path: Path) -> None:
    status, complaints = built(tmp_path, {**PAGES, "docs/bad.md": "# Bad\n\n" + "\n\n".join(FAULTS)})
    assert status == 1
    assert len(complaints) == len(FAULTS)
    assert [words for words in FAULTS.values() if not any(words in line for line in complaints)] == [], complaints
