"""HTML comments inside a Markdown text. markdown-it finds them, so that those in code spans stay."""

from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.html_inline import html_inline

_OPENING = "<!--"


def _noting(state: StateInline, silent: bool) -> bool:
    """Parse inline HTML, and note where comments are."""
    start = state.pos
    found = html_inline(state, silent)
    if found and state.src.startswith(_OPENING, start):
        state.env.setdefault("comments", {})[start] = state.pos
    return found


def _parser() -> MarkdownIt:
    parser = MarkdownIt("zero", {"html": True}).enable(["escape", "backticks", "html_inline"])
    parser.inline.ruler.at("html_inline", _noting)
    return parser


_inline = _parser()


def split_comments(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text without its comments, and what is in these."""
    found: dict[str, Any] = {}
    _inline.inline.parse(text, _inline, found, [])
    pieces: list[str] = []
    comments: list[str] = []
    done = 0
    for start, end in sorted(found.get("comments", {}).items()):
        pieces.append(text[done:start])
        comments.append(text[start + len(_OPENING) : end].removesuffix("-->").strip())
        done = end
    return "".join([*pieces, text[done:]]), tuple(comments)
