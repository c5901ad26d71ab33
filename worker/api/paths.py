"""Ids in paths. An id may contain any text, including slashes, sent as `%2F`.

Servers decode a path before matching it, which would split such ids. Here each segment is decoded by itself, and its
slashes stay encoded until it has become a parameter.
"""

from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import Scope

SEGMENT = "segment"
"""Convertor of a parameter that is one segment: `{session_id:segment}`."""

MEMORY = "memory"
"""Convertor of a memory id; it excludes `export` and `import`, which are endpoints."""


class SegmentConvertor(Convertor[str]):
    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace("%2F", "/").replace("%25", "%")

    def to_string(self, value: str) -> str:
        return value.replace("%", "%25").replace("/", "%2F")


class MemoryConvertor(SegmentConvertor):
    regex = "(?!(?:export|import)(?:/|$))[^/]+"


def register_convertors() -> None:
    """Register the convertors `SEGMENT` and `MEMORY`."""
    register_url_convertor(SEGMENT, SegmentConvertor())
    register_url_convertor(MEMORY, MemoryConvertor())


def segmented(scope: Scope) -> str:
    """Return the decoded path, with slashes inside segments still encoded."""
    raw = scope.get("raw_path")
    if not raw or b"%" not in raw:
        return str(scope["path"])
    to_string = SegmentConvertor().to_string
    return "/".join(to_string(unquote(part)) for part in raw.decode("ascii", "replace").split("/"))
