"""Time per stage of one request, in milliseconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Around = Callable[[str], AbstractContextManager[object]]
"""Returns a context to run a stage in, by the stage's name."""


class Stages:
    """Add up the time spent in each named stage; `started` is monotonic time in seconds.

    Stages may overlap, and one may begin several times: only its first beginning is kept. Each runs within `around`,
    if given.
    """

    def __init__(self, around: Around | None = None) -> None:
        self._around = around
        self.started = time.perf_counter()
        self._spent: dict[str, float] = {}
        self._began: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        self._began.setdefault(name, (started - self.started) * 1000.0)
        try:
            if self._around is None:
                yield
                return
            with self._around(name):
                yield
        finally:
            self._spent[name] = self._spent.get(name, 0.0) + (time.perf_counter() - started) * 1000.0

    @property
    def elapsed_ms(self) -> float:
        return round((time.perf_counter() - self.started) * 1000.0, 3)

    def as_dict(self) -> dict[str, float]:
        return {name: round(spent, 3) for name, spent in self._spent.items()}

    def began_ms(self) -> dict[str, float]:
        """Return when each stage began, counted from the beginning of the request."""
        return {name: round(began, 3) for name, began in self._began.items()}
