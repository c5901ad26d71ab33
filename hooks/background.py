"""An event loop in a thread of its own, by which plain threads use what is asynchronous. Bounded, whatever hangs."""

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
"""Seconds after a call's own deadline at which its caller stops waiting for it, however the loop is."""

CLOSING = 0.5
"""Most seconds that the end of the process, or a `close`, waits for connections to be closed."""

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]


class Unfinished(Exception):
    """The work was not done in time, or could not be begun."""


class Closable(Protocol):
    """Holds connections of the background loop."""

    async def aclose(self) -> None: ...


class _BackgroundLoop:
    """A loop that runs until it is stopped, in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="meeseeks-hooks", daemon=True)
        self._thread.start()

    def begin(self, work: Work[T]) -> "Future[T]":
        """Start `work`. Raises `RuntimeError` once the loop has been stopped."""
        awaited = _awaited(work)
        try:
            return asyncio.run_coroutine_threadsafe(awaited, self._loop)
        except RuntimeError:
            awaited.close()
            raise

    def stop(self) -> None:
        """End the loop and what still runs in it; a second time nothing happens."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSING)

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self._loop.run_until_complete(asyncio.wait(tasks, timeout=CLOSING / 2))
        finally:
            self._loop.close()


async def _awaited(work: Work[T]) -> T:
    return await work()


class LoopThread:
    """The process' one background loop: made when first needed, made anew after a fork, ended with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: _BackgroundLoop | None = None
        self._left_behind: list[_BackgroundLoop] = []
        self._open: WeakSet[Closable] = WeakSet()
        self._watching = False
        self._ended = False

    def do(self, work: Work[T], seconds: float, *, holder: Closable | None = None) -> T:
        """Run `work` in the loop and wait for it, at most `seconds` and a `GRACE`.

        `holder` is what may hold connections from then on. Raises what `work` raises, and `Unfinished`.
        """
        try:
            future = self._ready(holder).begin(work)
        except RuntimeError as error:
            raise Unfinished from error
        try:
            return future.result(seconds + GRACE)
        except (TimeoutError, CancelledError):
            future.cancel()
            raise Unfinished from None

    def close(self, holder: Closable) -> None:
        """Close what `holder` holds; nothing happens where it holds nothing."""
        with self._lock:
            held = holder in self._open
            self._open.discard(holder)
        if held:
            with suppress(Unfinished):
                self.do(holder.aclose, CLOSING)

    def _ready(self, holder: Closable | None) -> _BackgroundLoop:
        """The loop, running. Raises `RuntimeError` when the process is ending."""
        with self._lock:
            if self._ended:
                raise RuntimeError("the process is ending")
            if self._current is None:
                self._watch()
                self._current = _BackgroundLoop()
            if holder is not None:
                self._open.add(holder)
            return self._current

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            if hasattr(os, "register_at_fork"):  # Windows has no forks
                os.register_at_fork(after_in_child=self._after_fork)
            atexit.register(self._stop)

    def _after_fork(self) -> None:
        """The parent's thread is not here, its lock may be held for ever, and its loop must not be touched."""
        self._lock = threading.Lock()
        self._open = WeakSet()
        if self._current is not None:
            self._left_behind.append(self._current)
            self._current = None

    def _stop(self) -> None:
        for holder in list(self._open):
            self.close(holder)
        self._ended = True
        if self._current is not None:
            self._current.stop()


background = LoopThread()


class Blocking:
    """What plain threads are given in the place of `awaited`: its calls, done by the background loop."""

    def __init__(self, awaited: Closable) -> None:
        self._awaited = awaited

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        background.close(self._awaited)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for(self, work: Work[T], seconds: float) -> T:
        """Raises what `work` raises, and `Unfinished` where it is not done in `seconds`."""
        return background.do(work, seconds, holder=self._awaited)
