"""The pages, one module each: what a page shows, and what its forms do."""

from starlette.routing import Route

from worker.console.app import Console

from . import (
    browser,
    evaluations,
    memories,
    memory,
    memory_form,
    overview,
    playground,
    replay,
    request,
    requests,
    review,
    settings,
    settings_history,
    start,
    transfers,
)

PAGES = (
    *(overview, start, requests, request, replay, memories, memory, memory_form, transfers),
    *(review, playground, evaluations, settings_history, settings, browser),
)


def all_routes(console: Console) -> list[Route]:
    return [route for page in PAGES for route in page.routes(console)]
