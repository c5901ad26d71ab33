"""What was read of points is read again only after it has changed."""

from collections.abc import Iterable

from tests.support.store import memory
from worker.adapters.qdrant.edge.contents import Contents
from worker.adapters.qdrant.hits import Content


class Reader:
    """Read points whose text is the number of reads."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids
        self.asked: list[list[str]] = []

    def __call__(self, ids: list[str]) -> Iterable[Content]:
        self.asked.append(ids)
        return (Content(key, memory(key, f"read {len(self.asked)}"), None, None, b"") for key in ids if key in self.ids)


def test_known_points_are_not_read_again() -> None:
    contents, read = Contents(), Reader("a", "b", "c")
    assert list(contents.of(["a", "b"], read)) == ["a", "b"]
    assert set(contents.of(["b", "c", "a"], read)) == {"a", "b", "c"}
    assert contents.of(["a"], read)["a"].memory.content == "read 1"
    assert read.asked == [["a", "b"], ["c"]]


def test_a_changed_point_is_read_again() -> None:
    contents, read = Contents(), Reader("a", "b")
    contents.of(["a", "b"], read)
    contents.forget(["b", "never read"])
    assert {key: one.memory.content for key, one in contents.of(["a", "b"], read).items()} == {
        "a": "read 1",
        "b": "read 2",
    }


def test_a_missing_point_is_looked_for_each_time() -> None:
    contents, read = Contents(), Reader("a")
    assert list(contents.of(["gone", "a"], read)) == ["a"]
    read.ids = ("gone",)
    assert set(contents.of(["gone", "a"], read)) == {"gone", "a"}


def test_only_the_last_used_points_are_kept() -> None:
    contents, read = Contents(most=2), Reader("a", "b", "c")
    contents.of(["a", "b"], read)
    contents.of(["a"], read)
    assert set(contents.of(["a", "b", "c"], read)) == {"a", "b", "c"}, "also more than are kept"
    contents.of(["b", "c"], read)
    assert read.asked == [["a", "b"], ["c"]]
