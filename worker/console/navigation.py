"""The pages that the head of each page leads to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A page: its address, its name, and the key that opens it after `g`."""

    path: str
    name: str
    key: str


ENTRIES = (
    Entry("/", "Overview", "o"),
    Entry("/requests", "Requests", "r"),
    Entry("/memories", "Memories", "m"),
    Entry("/review", "Review", "v"),
    Entry("/playground", "Playground", "p"),
    Entry("/settings", "Settings", "s"),
)


def section_of(path: str) -> str:
    """Return the page of the head under which a path lies, `/` if there is none."""
    below = (entry.path for entry in ENTRIES[1:] if path == entry.path or path.startswith(entry.path + "/"))
    return next(below, "/")
