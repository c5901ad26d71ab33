"""The pages, one module each: what a page shows, and what its forms do."""

from starlette.routing import Route

from worker.console.app import Console

from . import browser, overview


def all_routes(console: Console) -> list[Route]:
    return [*overview.routes(console), *browser.routes(console)]
