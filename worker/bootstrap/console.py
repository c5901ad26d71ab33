"""Put the console behind the access control of the HTTP service."""

from worker.api.pages import Pages
from worker.api.server import HttpServer
from worker.console.app import make_app, make_console
from worker.console.navigation import ENTRIES
from worker.console.pages import all_routes, playground
from worker.console.pages.browser import HARMLESS, SIGN_IN
from worker.console.pages.transfers import IMPORT
from worker.console.static_files import SEGMENT as STATIC
from worker.operations.client import OperationClient, QueueLook

OTHERS = frozenset({"overview", "start", "memory"}) | {path.removeprefix("/") for path in HARMLESS}
"""First segments of pages that no entry of the navigation names."""


def console_pages(server: HttpServer, backend: OperationClient, look: QueueLook) -> Pages:
    """Return the console's pages, which use these operations and show the state of the queue."""
    console = make_console(backend, server, look)
    named = {entry.path.removeprefix("/") for entry in ENTRIES}
    return Pages(
        app=make_app(console, all_routes(console)),
        segments=frozenset(named | OTHERS | {STATIC}),
        static=STATIC,
        sign_in=SIGN_IN,
        harmless=HARMLESS | playground.HARMLESS,
        large=frozenset({IMPORT}),
        refused=console.error,
        stop=console.live.stop,
    )
