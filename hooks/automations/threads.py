"""Blocking work in threads that neither hold up the event loop nor the end of the process."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """Does each piece of work in a daemon thread of its own, and counts those whose callers have gone."""

    def __init__(self) -> None:
        self._abandoned: set[threading.Thread] = set()

    @property
    def abandoned(self) -> int:
        """Threads that still work although nobody waits for what they bring."""
        self._abandoned = {thread for thread in self._abandoned if thread.is_alive()}
        return len(self._abandoned)

    async def do(self, work: Callable[[], T]) -> T:
        """What `work` brings; its errors are raised here.

        What is no plain error there (`sys.exit` in what was not meant to be called) is a `RuntimeError` here.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        thread = threading.Thread(target=_run, args=(work, loop, future), name="meeseeks-automation", daemon=True)
        thread.start()
        try:
            return await future
        except asyncio.CancelledError:
            self._abandoned.add(thread)
            raise


def _run(work: Callable[[], T], loop: asyncio.AbstractEventLoop, future: "asyncio.Future[T]") -> None:
    try:
        result = work()
    except BaseException as raised:  # noqa: BLE001 - whatever it is, the waiting side has to hear of it
        deliver, what = future.set_exception, _plain(raised)
    else:
        deliver, what = future.set_result, result  # type: ignore[assignment]

    def hand_over() -> None:
        if not future.done():
            deliver(what)

    with suppress(RuntimeError):  # the loop may have been closed meanwhile
        loop.call_soon_threadsafe(hand_over)


def _plain(raised: BaseException) -> Exception:
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
        return raised
    return RuntimeError(f"{type(raised).__name__} was raised")
