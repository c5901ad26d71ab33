"""Every page and form asks for the visitor's tenant only, and a read-only token changes nothing."""

from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from tests.support.console import ACME_TOKEN, PROPOSAL, READING_TOKEN, browsing, fields_in, post, sign_in, with_tokens
from tests.support.http import Recorder
from worker.api.server import HttpServer
from worker.bootstrap.console import console_pages
from worker.console.app import make_console
from worker.console.pages import all_routes
from worker.console.pages.browser import HARMLESS
from worker.domain.operation import Handlers
from worker.operations.local_client import LocalOperationClient
from worker.settings.service import ServiceSettings

MEMORY = {"id": "m", "content": "c"}
UPKEEP: dict[str, Any] = {"run": {"id": "u1", "at": "2026-03-04T09:12:00Z"}, "texts": {}}
ANSWERS: dict[str, Any] = {
    "export": {"memories": [MEMORY], "cursor": None},
    "recall": {"memories": []},
    "show": {"memory": MEMORY, "earlier": [], "later": [], "related": []},
    "usage": {"memories": [], "counted": 0},
    "remember": {"id": "m", "stored": "created"},
    "update": {"memory": MEMORY},
    "forget": {"forgotten": 1, "undo_s": 600},
    "undo": {"restored": [MEMORY]},
    "receipt_page": {"summaries": [], "cursor": None},
    "proposals": {"proposals": [PROPOSAL]},
    "proposal_accept": {"id": "m", "stored": "created"},
    "proposal_reject": {"rejected": "p1"},
    "upkeep": UPKEEP,
    "upkeep_show": UPKEEP,
    "upkeep_undo": UPKEEP["run"],
}
PAGES = [
    "/requests",
    "/memories",
    "/memories?q=words",
    "/memories?q=words&by=words",
    "/memories?never_used=true",
    "/memory?id=m",
    "/memory/edit?id=m",
    "/start",
    "/review",
]
FORMS: list[tuple[str, dict[str, Any]]] = [
    ("/memory/save", {"content": "x"}),
    ("/memory/save", {"content": "x", "id": "m"}),
    ("/memory/pin", {"id": "m", "pinned": "yes"}),
    ("/memories/forget", {"id": "m"}),
    ("/memories/undo", {"id": "m"}),
    ("/memories/type", {"id": "m", "type": "goal"}),
    ("/review/accept", {"id": "p1", "text": "x"}),
    ("/review/reject", {"id": "p1"}),
    ("/review/upkeep", {"apply": "true"}),
    ("/review/upkeep/undo", {"id": "u1"}),
]


def tenants(recorder: Recorder) -> set[str]:
    return {payload.get("tenant") or payload["scope"]["tenant"] for _, payload in recorder.asked}


@pytest.mark.parametrize("path", PAGES)
async def test_pages_ask_for_the_tenant_of_the_token(tmp_path: Path, path: str) -> None:
    recorder = Recorder(ANSWERS)
    async with browsing(recorder, with_tokens(tmp_path)) as client:
        await sign_in(client, ACME_TOKEN)
        join = "&" if "?" in path else "?"
        assert (await client.get(f"{path}{join}tenant=other")).status_code == 200
    assert tenants(recorder) == {"acme"}


@pytest.mark.parametrize(("path", "fields"), FORMS)
async def test_forms_change_only_the_tenant_of_the_token(tmp_path: Path, path: str, fields: dict[str, Any]) -> None:
    recorder = Recorder(ANSWERS)
    async with browsing(recorder, with_tokens(tmp_path)) as client:
        await sign_in(client, ACME_TOKEN)
        assert (await post(client, path, tenant="other", **fields)).status_code == 303
    assert tenants(recorder) == {"acme"}


@pytest.mark.parametrize(("path", "fields"), FORMS)
async def test_a_form_is_for_the_tenant_of_its_page(path: str, fields: dict[str, Any]) -> None:
    recorder = Recorder(ANSWERS)
    async with browsing(recorder) as client:
        form = fields_in((await client.get("/memories?tenant=acme")).text)
        await client.get("/memories?tenant=other")  # in another tab
        recorder.asked.clear()
        answer = await client.post(path, data={**form, **fields})
        assert tenants(recorder) == {"acme"}
        assert "tenant=acme" in answer.headers["location"], "what was changed is shown next"


async def test_what_a_page_asks_for_later_is_for_its_tenant() -> None:
    async with browsing(Recorder(ANSWERS)) as client:
        await client.get("/?tenant=acme")
        page = (await client.get("/requests")).text
        assert "/requests/live?tenant=acme" in page
        for path in ("/requests", "/memories"):
            search = (await client.get(path)).text.partition('role="search"')[2].partition("</form>")[0]
            assert '<input type="hidden" name="tenant" value="acme">' in search


@pytest.mark.parametrize(("path", "fields"), FORMS)
async def test_a_token_that_only_reads_sends_no_form(tmp_path: Path, path: str, fields: dict[str, Any]) -> None:
    recorder = Recorder(ANSWERS)
    async with browsing(recorder, with_tokens(tmp_path)) as client:
        await sign_in(client, READING_TOKEN)
        assert (await post(client, path, **fields)).status_code == 403
        page = (await client.get("/memories")).text
        assert "/memories/forget" not in page
    assert {name for name, _ in recorder.asked} <= {"export"}


async def nothing_known() -> None:
    """Look at no queue."""


def routes(handlers: Handlers) -> list[Route]:
    server = HttpServer(ServiceSettings())
    return all_routes(make_console(LocalOperationClient(handlers), server, nothing_known))


def test_every_path_lies_behind_the_pages_access_control() -> None:
    server = HttpServer(ServiceSettings())
    pages = console_pages(server, LocalOperationClient({}), nothing_known)
    assert [route.path for route in routes({}) if not pages.takes(route.path)] == []
    assert {route.path for route in routes({}) if "POST" in (route.methods or ())} >= HARMLESS


def test_nothing_is_changed_by_looking() -> None:
    assert all(route.methods in ({"GET", "HEAD"}, {"POST"}) for route in routes({}))
