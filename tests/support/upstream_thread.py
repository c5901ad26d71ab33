"""The model server of `tests.support.upstream` beside a test that has no event loop, such as one of a command."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.upstream import Responder, Upstream


@contextmanager
def upstream_thread(respond: Responder) -> Iterator[Upstream]:
    """A server in a thread of its own, ended afterwards."""
    upstream, loop = Upstream(respond=respond), asyncio.new_event_loop()
    ready, over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with upstream:
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="upstream")
    thread.start()
    try:
        assert ready.wait(10)
        yield upstream
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()
