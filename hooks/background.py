"""A background event loop that runs asynchronous work for plain threads, always with a time limit."""

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self, TypeVar
from weakref import WeakSet

GRACE = 0.05
"""Seconds past its own deadline that a caller waits for a call."""

CLOSE_TIMEOUT = 0.5
"""Seconds that `close` and process exit wait for connections to close."""

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]


class Unfinished(Exception):
    """The work did not finish in time or could not start."""


class Closable(Protocol):
    """Object that holds connections of the background loop."""

    async def aclose(self) -> None: ...


class _BackgroundLoop:
    """Event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="meeseeks-hooks", daemon=True)
        self._thread.start()

    def submit(self, work: Work[T]) -> "Future[T]":
        """Start `work`. Raise `RuntimeError` if the loop has stopped."""
        coroutine = _awaited(work)
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise

    def stop(self) -> None:
        """Stop the loop and cancel its tasks. Safe to call twice."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT)

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self._loop.run_until_complete(asyncio.wait(tasks, timeout=CLOSE_TIMEOUT / 2))
        finally:
            self._loop.close()


async def _awaited(work: Work[T]) -> T:
    return await work()


class LoopThread:
    """The background loop of the process: started on first use, restarted after a fork, stopped at exit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: _BackgroundLoop | None = None
        self._inherited: list[_BackgroundLoop] = []
        self._open: WeakSet[Closable] = WeakSet()
        self._registered = False
        self._ended = False

    def do(self, work: Work[T], seconds: float, *, holder: Closable | None = None) -> T:
        """Run `work` in the loop and wait for at most `seconds` + `GRACE`.

        `holder` is closed at exit. Raise what `work` raises, or `Unfinished`.
        """
        try:
            future = self._ready(holder).submit(work)
        except RuntimeError as error:
            raise Unfinished from error
        try:
            return future.result(seconds + GRACE)
        except (TimeoutError, CancelledError):
            future.cancel()
            raise Unfinished from None

    def close(self, holder: Closable) -> None:
        """Close the connections of `holder`, if any; if that takes longer than `CLOSE_TIMEOUT`, it goes on."""
        with self._lock:
            held = holder in self._open
            self._open.discard(holder)
        if held:
            with suppress(RuntimeError, TimeoutError, CancelledError):
                self._ready(None).submit(holder.aclose).result(CLOSE_TIMEOUT)

    def _ready(self, holder: Closable | None) -> _BackgroundLoop:
        """Return the running loop. Raise `RuntimeError` if the process is exiting."""
        with self._lock:
            if self._ended:
                raise RuntimeError("the process is exiting")
            if self._current is None:
                self._register_handlers()
                self._current = _BackgroundLoop()
            if holder is not None:
                self._open.add(holder)
            return self._current

    def _register_handlers(self) -> None:
        if not self._registered:
            self._registered = True
            if hasattr(os, "register_at_fork"):  # not on Windows
                os.register_at_fork(after_in_child=self._after_fork)
            atexit.register(self._stop)

    def _after_fork(self) -> None:
        """Drop the parent's loop: its thread does not exist here, and its lock may be held forever."""
        self._lock = threading.Lock()
        self._open = WeakSet()
        if self._current is not None:
            self._inherited.append(self._current)
            self._current = None

    def _stop(self) -> None:
        for holder in list(self._open):
            self.close(holder)
        self._ended = True
        if self._current is not None:
            self._current.stop()


background = LoopThread()


class Blocking:
    """Base of blocking wrappers, which run calls of `wrapped` in the background loop."""

    def __init__(self, wrapped: Closable) -> None:
        self._wrapped = wrapped

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        background.close(self._wrapped)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for(self, work: Work[T], seconds: float) -> T:
        """Raise what `work` raises, or `Unfinished` after `seconds`."""
        return background.do(work, seconds, holder=self._wrapped)
