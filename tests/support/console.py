"""The console behind its access control, over fake operations."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.http import Recorder, usual_app
from worker.api.server import HttpServer
from worker.bootstrap.console import console_pages
from worker.operations.client import QueueState
from worker.operations.local_client import LocalOperationClient
from worker.settings.service import ServiceSettings

HEALTH: Mapping[str, Any] = {
    "store": {"engine": "edge", "points": 3, "dense_usable": True},
    "embedder": "minilm",
    "model": None,
    "decides": "the relevance model",
    "relevance_model": "built in",
    "store_at": "/somewhere",
    "pid": 7,
    "models": [],
    "settings": {},
}

NOTHING: Mapping[str, Any] = {
    "export": {"memories": [], "cursor": None},
    "receipt_page": {"summaries": [], "cursor": None},
}
"""What an empty tenant has."""

SAID_AT = "2026-03-04T09:12:00Z"
PROPOSAL: Mapping[str, Any] = {
    "id": "p1",
    "at": SAID_AT,
    "expires_at": "2026-03-18T09:12:00Z",
    "capture": "c1",
    "source": {"session_id": "s", "user": "hana"},
    "change": {
        "kind": "supersede",
        "target": "m",
        "conflicts": ["m2"],
        "memory": {
            "id": "new",
            "content": "c",
            "evidence": {"text": "<b>so</b>", "said_at": SAID_AT, "session": "s", "capture": "c1"},
        },
    },
}
"""A proposal that replaces the memory `m`."""

TOKEN, ACME_TOKEN, READING_TOKEN = "a-token-for-every-tenant", "a-token-for-acme-alone", "a-token-that-only-reads"


def with_tokens(folder: Path) -> ServiceSettings:
    """Return settings with a token for all tenants, one for acme, and one for acme that only reads."""
    file = folder / "tokens"
    file.write_text(f"{ACME_TOKEN} acme\n{READING_TOKEN} acme role=read-only\n", encoding="utf-8")
    return ServiceSettings(http_token=TOKEN, http_token_file=file)


@asynccontextmanager
async def browsing(
    recorder: Recorder, settings: ServiceSettings | None = None, queue: QueueState | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client that keeps cookies and does not follow redirects."""

    async def look() -> QueueState | None:
        return queue

    server = HttpServer(settings or ServiceSettings())
    usual = Recorder({"health": HEALTH, **NOTHING})
    backend = LocalOperationClient({**usual.handlers, **recorder.handlers})
    pages = console_pages(server, backend, look)
    app = usual_app(backend, policy=server.policy, metrics=server.metrics, pages=pages)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {"Accept": "text/html"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        yield client


def token_in(page: str) -> str:
    """Return the token of the first form of a page."""
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
    assert found, page
    return found[1]


def fields_in(page: str) -> dict[str, str]:
    """Return the fields that every form of a page has."""
    found = re.findall(r'<input type="hidden" name="(csrf|for_tenant)" value="([^"]*)">', page)
    return dict(found)


async def post(client: httpx.AsyncClient, path: str, page: str = "/sign-in", **fields: Any) -> httpx.Response:
    """Send a form as the page at `page` would."""
    shown = await client.get(page)
    return await client.post(path, data={**fields_in(shown.text), **fields})


async def sign_in(client: httpx.AsyncClient, token: str) -> None:
    answer = await post(client, "/sign-in", token=token, next="/")
    assert answer.status_code == 303, answer.text
