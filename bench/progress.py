"""Progress bars, on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def make_progress() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # redrawing takes time away from what is measured
    return Progress(*columns, console=Console(stderr=True), refresh_per_second=2, transient=True)


@contextmanager
def bar(progress: Progress, what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar of `total` steps; call what comes back after each."""
    task = progress.add_task(what, total=total)
    try:
        yield lambda: progress.advance(task)
    finally:
        progress.remove_task(task)
