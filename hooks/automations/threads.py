"""Run blocking work in daemon threads, which block neither the event loop nor process exit."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """Run each piece of work in a new daemon thread and count the abandoned ones."""

    def __init__(self) -> None:
        self._abandoned: set[threading.Thread] = set()

    @property
    def abandoned(self) -> int:
        """Number of running threads whose caller was cancelled."""
        self._abandoned = {thread for thread in self._abandoned if thread.is_alive()}
        return len(self._abandoned)

    async def do(self, work: Callable[[], T]) -> T:
        """Return the result of `work` or raise its error. Raise `RuntimeError` for `SystemExit` and the like."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        thread = threading.Thread(target=_work, args=(work, loop, future), name="meeseeks-automation", daemon=True)
        thread.start()
        try:
            return await future
        except asyncio.CancelledError:
            self._abandoned.add(thread)
            raise


def _work(work: Callable[[], T], loop: asyncio.AbstractEventLoop, future: "asyncio.Future[T]") -> None:
    try:
        result = work()
    except BaseException as raised:  # noqa: BLE001 - the waiting side needs every error
        deliver, what = future.set_exception, _plain(raised)
    else:
        deliver, what = future.set_result, result  # type: ignore[assignment]

    def hand_over() -> None:
        if not future.done():
            deliver(what)

    with suppress(RuntimeError):  # the loop may be closed
        loop.call_soon_threadsafe(hand_over)


def _plain(raised: BaseException) -> Exception:
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
        return raised
    return RuntimeError(f"{type(raised).__name__} was raised")
