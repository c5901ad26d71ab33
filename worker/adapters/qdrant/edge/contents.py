"""A cache of what was read of points. Not thread-safe."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from worker.adapters.qdrant.hits import Content

POINTS_CACHED = 4_096
"""Points of which a process keeps what it read: some three kilobytes each, and four more with six cues."""

Read = Callable[[list[str]], Iterable[Content]]


class Contents:
    """The content of the points that were found last: reading it takes longer than finding them."""

    def __init__(self, most: int = POINTS_CACHED) -> None:
        self._most = most
        self._points: OrderedDict[str, Content] = OrderedDict()

    def of(self, ids: Sequence[str], read: Read) -> dict[str, Content]:
        """Return the content of those of `ids` that exist, with `read` for those that are not known."""
        found = {key: point for key in ids if (point := self._points.get(key)) is not None}
        for key in found:
            self._points.move_to_end(key)
        if len(found) < len(ids):
            new = {point.point_id: point for point in read([key for key in ids if key not in found])}
            found |= new
            self._points |= new
        while len(self._points) > self._most:
            self._points.popitem(last=False)
        return found

    def forget(self, ids: Iterable[str]) -> None:
        """Forget points that change."""
        for key in ids:
            self._points.pop(key, None)
