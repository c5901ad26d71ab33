"""Configure Sphinx for the documentation site: `make docs` builds it into build/site.

The index, docs/README.md, gives the navigation and the pages outside docs/.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "README.md"
PART = re.compile(r"(?m)^## ([^:\n]+)")
LINK_TO_PAGE = re.compile(r"\]\(([^):#]+\.md)\)")
LOADED_BY_PAGE = re.compile(r"""<(?!a\b)[a-z][^>]*?\s(?:src|srcset|href|data)=["']?((?:https?:)?//[^\s"'>]+)""")
LOADED_BY_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^\s"')]+)""")

log = getLogger(__name__)


def parts() -> dict[str, list[str]]:
    """Return the pages that each part of the index names, relative to the root."""
    _, *texts = PART.split(INDEX.read_text(encoding="utf-8"))
    return {
        title: [(INDEX.parent / link).resolve().relative_to(ROOT).as_posix() for link in LINK_TO_PAGE.findall(text)]
        for title, text in zip(texts[::2], texts[1::2], strict=True)
    }


project = html_title = "Meeseeks"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "docs/*.md", *(page for pages in parts().values() for page in pages)]
exclude_patterns = [".*", "build"]
myst_heading_anchors = 6
highlight_language = "text"
smartquotes = False
html_theme = "furo"
html_static_path = ["site/site.css"]
html_css_files = ["site.css"]
html_extra_path = ["site/index.html"]
html_copy_source = False
html_use_index = False


def add_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the index to the home page as tables of contents, which the theme shows beside every page."""
    if page != root_doc:
        return
    for title, pages in {"Overview": ["docs/README.md"], **parts()}.items():
        lines = ("\n```{toctree}", ":hidden:", f":caption: {title}", *(f"/{name}" for name in pages), "```\n")
        source[0] += "\n".join(lines)


def report_other_hosts(app: Sphinx, error: Exception | None) -> None:
    """Warn of whatever a browser would load from another host to show the site."""
    for suffix, expression in {".html": LOADED_BY_PAGE, ".css": LOADED_BY_STYLE}.items():
        for path in sorted(app.outdir.rglob(f"*{suffix}")):
            for address in expression.findall(path.read_text(encoding="utf-8")):
                log.warning("%s loads %s", path.relative_to(app.outdir), address)


def setup(app: Sphinx) -> None:
    """Connect the functions above to the build."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", report_other_hosts)
