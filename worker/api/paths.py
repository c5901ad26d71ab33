"""Ids in paths: any text may be an id, a slash in it included, which travels as `%2F`.

Servers decode a path before it is matched, so that such a slash would divide it. Here each segment is decoded by
itself, and what would divide it stays encoded until the segment has become a parameter.
"""

from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import Scope

SEGMENT = "segment"
"""The kind of a parameter that is one segment: `{session_id:segment}`."""

MEMORY = "memory"
"""The kind of a parameter that is a memory's id; `export` and `import` at its place are endpoints of their own."""


class SegmentConvertor(Convertor[str]):
    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace("%2F", "/").replace("%25", "%")

    def to_string(self, value: str) -> str:
        return value.replace("%", "%25").replace("/", "%2F")


class MemoryConvertor(SegmentConvertor):
    regex = "(?!(?:export|import)(?:/|$))[^/]+"


def know_segments() -> None:
    """Let routes have parameters of the kinds `SEGMENT` and `MEMORY`."""
    register_url_convertor(SEGMENT, SegmentConvertor())
    register_url_convertor(MEMORY, MemoryConvertor())


def segmented(scope: Scope) -> str:
    """The path of a request, decoded but for what divides segments."""
    raw = scope.get("raw_path")
    if not raw or b"%" not in raw:
        return str(scope["path"])
    to_string = SegmentConvertor().to_string
    return "/".join(to_string(unquote(part)) for part in raw.decode("ascii", "replace").split("/"))
