"""Progress bars on standard error."""

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
    # redraw rarely, so that measurements are not disturbed
    return Progress(*columns, console=Console(stderr=True), refresh_per_second=2, transient=True)


@contextmanager
def bar(progress: Progress, what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar of `total` steps; yield the function to call after each."""
    task = progress.add_task(what, total=total)
    try:
        yield lambda: progress.advance(task)
    finally:
        progress.remove_task(task)
