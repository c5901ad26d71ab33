"""The settings pages over real settings: every control, saving, reverting, and two editors."""

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from hooks.contract import Reason
from tests.support.console import ACME_TOKEN, READING_TOKEN, TOKEN, browsing, sign_in, token_in
from tests.support.http import Recorder
from tests.unit.settings.test_live_settings import Overrides
from worker.console.setting_fields import FIELDS, sections, text_of, value_of
from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError, QueueError, SettingsConflict
from worker.domain.operation import AnyHandler
from worker.operations.results import SettingsResult
from worker.operations.settings import SettingsOperations
from worker.settings.injection import InjectionConfig, Settings
from worker.settings.live import LiveSettings
from worker.settings.saved import Author, SavedSettings
from worker.settings.service import ServiceSettings


@pytest.fixture
def live() -> LiveSettings:
    return LiveSettings(Settings(), Overrides())


@pytest.fixture
async def client(live: LiveSettings) -> AsyncIterator[httpx.AsyncClient]:
    async with browsing(Recorder(operations_of(live))) as opened:
        yield opened


def operations_of(live: LiveSettings) -> dict[str, Any]:
    """Return the real operations as answers of a recorder."""

    def answering(handler: AnyHandler) -> Any:
        async def answer(payload: dict[str, Any]) -> Any:
            try:
                done = await handler.run(handler.operation.request.model_validate(payload), Deadline.after(5.0))
            except MeeseeksError as error:
                return error
            result: BaseModel = done
            return result.model_dump(mode="json", exclude_unset=handler.operation.omit_unset)

        return answer

    return {one.operation.name: answering(one) for one in SettingsOperations(live).handlers()}


async def send(client: httpx.AsyncClient, path: str, page: str, **typed: str) -> httpx.Response:
    """Send the form of a page as a browser would, with some fields changed."""
    named = re.findall(r'<(?:input|textarea)[^>]* name="was\.(\w+)" value="([^"]*)"', page)
    version = re.search(r'name="version" value="(\d+)"', page)
    assert version
    fields: dict[str, Any] = {"version": version[1]} | {f"was.{key}": unescape(text) for key, text in named}
    for key, text in named:
        plain = unescape(text)
        value = plain.split("\n") if key in ("languages", "pinned_types") else plain
        if plain not in ("false", ""):
            fields[key] = value
    return await client.post(path, data={**fields, "csrf": token_in(page), **typed})


async def test_every_setting_has_a_control_with_its_description(client: httpx.AsyncClient) -> None:
    page = (await client.get("/settings")).text
    assert set(re.findall(r'name="was\.(\w+)"', page)) == set(FIELDS)
    assert all(re.search(rf'<(input|select|textarea)[^>]* name="{key}"', page) for key in FIELDS)
    assert page.count("Experimental") == 1
    assert "1 to 200; default 30" in page


async def test_a_form_sent_unchanged_saves_nothing(client: httpx.AsyncClient, live: LiveSettings) -> None:
    page = (await client.get("/settings")).text
    assert (await send(client, "/settings", page)).status_code == 303
    assert not live.view()["memory_injection_overridden"]


async def test_settings_in_force_are_shown_while_redis_does_not_answer() -> None:
    store = Overrides()
    live = LiveSettings(Settings(), store)
    await live.patch(None, {"max_total": 7})
    store.read = unavailable  # type: ignore[method-assign]
    async with browsing(Recorder(operations_of(live))) as client:
        page = await client.get("/settings")
        assert page.status_code == 200
        assert 'name="max_total" value="7"' in page.text
        assert (await client.get("/settings/history")).status_code == 503, "an empty list would not be true"


async def unavailable(known: int) -> SavedSettings | None:
    raise QueueError(Reason.QUEUE_UNAVAILABLE, "Redis does not answer")


async def test_a_value_is_saved_for_one_agent_and_reverted(client: httpx.AsyncClient, live: LiveSettings) -> None:
    page = (await client.get("/settings?agent=planner")).text
    assert (await send(client, "/settings?agent=planner", page, max_total="3")).status_code == 303
    assert live.for_agent("planner").max_total == 3
    assert live.for_agent("other").max_total == 25
    page = (await client.get("/settings?agent=planner")).text
    assert "saved for this agent; without it 25 (built in)" in page
    assert f">Override</span> 1 of {len(FIELDS)} settings ·" in page
    other = (await client.get("/settings?agent=other")).text
    assert re.search(r">Using Default</span> ·\s+<a href=\"/settings\">All agents", other)
    assert "1 agent differs" in (await client.get("/settings")).text
    assert (await send(client, "/settings?agent=planner", page, revert="max_total")).status_code == 303
    assert live.for_agent("planner").max_total == 25


async def test_everything_is_reverted_at_once(client: httpx.AsyncClient, live: LiveSettings) -> None:
    await live.patch(None, {"max_total": 3, "max_items": 2})
    page = (await client.get("/settings")).text
    assert (await send(client, "/settings", page, revert="*")).status_code == 303
    assert live.for_agent("a").max_items == 5


async def test_a_wrong_value_is_explained_at_its_field_and_kept(client: httpx.AsyncClient, live: LiveSettings) -> None:
    page = (await client.get("/settings")).text
    answer = await send(client, "/settings", page, search_limit="900", max_items="2")
    assert answer.status_code == 422
    assert 'value="900"' in answer.text
    assert 'value="2"' in answer.text
    assert re.search(r'id="search_limit-about".*?<strong class="bad">[^<]*200', answer.text, re.DOTALL)
    assert live.for_agent("a").max_items == 5


async def test_two_editors_do_not_overwrite_each_other(client: httpx.AsyncClient, live: LiveSettings) -> None:
    page = (await client.get("/settings")).text
    await live.patch(None, {"max_total": 4, "max_chars": 900})
    answer = await send(client, "/settings", page, max_total="3")
    assert answer.status_code == 412
    assert "Saved by somebody else meanwhile: 4." in answer.text
    assert 'name="max_total" value="3"' in answer.text
    assert live.for_agent("a").max_total == 4
    assert (await send(client, "/settings", answer.text, max_total="3")).status_code == 303
    assert (live.for_agent("a").max_total, live.for_agent("a").max_chars) == (3, 900)


async def test_the_other_editor_is_named(client: httpx.AsyncClient, live: LiveSettings) -> None:
    page = (await client.get("/settings?agent=planner")).text
    await live.patch("planner", {"max_total": 5}, author=Author(name="ida"))
    await live.patch("planner", {"max_total": 4}, author=Author(name="oscar"))
    answer = await send(client, "/settings?agent=planner", page, max_total="3")
    assert "Saved by oscar meanwhile: 4." in answer.text


@pytest.mark.parametrize("version", ["", "x", "9" * 30, "²"])
async def test_a_form_that_does_not_say_its_version_is_refused(
    client: httpx.AsyncClient, live: LiveSettings, version: str
) -> None:
    page = (await client.get("/settings")).text
    answer = await send(client, "/settings", page, version=version, max_total="3")
    assert answer.status_code == 422
    assert "Load its page again" in answer.text
    assert live.for_agent("a").max_total == 25


async def test_the_history_says_who_changed_what(client: httpx.AsyncClient, live: LiveSettings) -> None:
    await live.patch(None, {"max_items": 3}, author=Author(name="oscar", via="http"))
    await live.patch(
        "a/<b>", {"ambient_enabled": True, "pinned_types": ["todo", "goal"]}, author=Author(name="<script>", via="new")
    )
    page = (await client.get("/settings/history")).text
    assert re.search(r"oscar <span[^>]*>over HTTP</span>", page)
    assert re.search(r"Max items</span>: 5 \(default\) → <strong>3</strong>", page)
    assert "goal, todo" in page
    assert "Ambient Awareness enabled</span>: false (default) → <strong>true</strong>" in page
    assert 'href="/settings?agent=a%2F%3Cb%3E"' in page
    assert "<script>" not in page.split("<main", 1)[1]
    rows = (await client.get("/settings/history.json?agent=a%2F%3Cb%3E")).json()["rows"]
    assert [(row["version"], row["whose"]) for row in rows] == [(2, "a/<b>")]
    assert len((await client.get("/settings/history.json?key=max_items")).json()["rows"]) == 1
    assert "No change that is still known fits" in (await client.get("/settings/history?agent=nobody")).text


async def test_a_long_history_has_pages(client: httpx.AsyncClient, live: LiveSettings) -> None:
    for number in range(60):
        await live.patch(None, {"max_chars": 200 + number})
    first = (await client.get("/settings/history")).text
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first)
    rest = (await client.get(unescape(older))).text
    numbers = [int(one) for page in (first, rest) for one in re.findall(r'<td class="number">(\d+)', page)]
    assert numbers == list(range(60, 0, -1))
    assert 'rel="next"' not in rest


async def undo(client: httpx.AsyncClient, page: str, change: int, **fields: str) -> httpx.Response:
    return await client.post("/settings/undo", data={"csrf": token_in(page), "change": str(change), **fields})


async def test_a_change_is_undone_with_one_click(client: httpx.AsyncClient, live: LiveSettings) -> None:
    page = (await client.get("/settings?agent=planner")).text
    await send(client, "/settings?agent=planner", page, max_total="3")
    page = (await client.get("/settings?agent=planner")).text
    assert "Last change: local in the console" in page
    assert 'aria-label="Undo change 1"' in page
    answer = await undo(client, page, 1, on="settings")
    assert answer.headers["location"] == "/settings?agent=planner"
    assert live.for_agent("planner").max_total == 25
    assert "change 1 was undone already, by change 2" in (await client.get("/settings/history")).text
    assert live.saved.history[-1].author == Author(via="console")
    assert "Last change" not in (await client.get("/settings")).text


async def test_an_undo_is_refused_on_the_history_page(client: httpx.AsyncClient, live: LiveSettings) -> None:
    await live.patch(None, {"max_total": 3})
    page = (await client.get("/settings/history")).text
    await live.patch(None, {"max_total": 4}, author=Author(name="oscar"))
    answer = await undo(client, page, 1)
    assert answer.status_code == 412
    assert "nothing was undone: max_total changed again since: change 2 by oscar" in answer.text
    assert live.for_agent("a").max_total == 4
    assert (await undo(client, page, 9)).status_code == 404
    answer = await undo(client, page, 2, key="max_total", agent=" ")
    assert answer.headers["location"] == "/settings/history?key=max_total"
    assert live.for_agent("a").max_total == 3


async def test_who_may_only_read_gets_no_button_to_undo(live: LiveSettings, tmp_path: Path) -> None:
    await live.patch(None, {"max_total": 3})
    file = tmp_path / "tokens"
    file.write_text(f"{READING_TOKEN} role=read-only\n{ACME_TOKEN} acme\n{TOKEN} name=oscar", encoding="utf-8")
    service = ServiceSettings(http_token_file=file)
    async with browsing(Recorder(operations_of(live)), service) as client:
        await sign_in(client, READING_TOKEN)
        page = (await client.get("/settings/history")).text
        assert "Max total" in page
        assert "Undo change" not in page
        assert (await undo(client, page, 1)).status_code == 403
    async with browsing(Recorder(operations_of(live)), service) as client:
        await sign_in(client, ACME_TOKEN)
        assert (await client.get("/settings/history")).status_code == 403
    async with browsing(Recorder(operations_of(live)), service) as client:
        await sign_in(client, TOKEN)
        page = (await client.get("/settings/history")).text
        assert (await undo(client, page, 1)).status_code == 303
    assert live.saved.history[-1].author == Author(name="oscar", via="console")


@pytest.mark.parametrize("agent", ["a/b", "history", "x.json", "ünï ?&#%"])
async def test_every_agent_has_a_page(client: httpx.AsyncClient, live: LiveSettings, agent: str) -> None:
    await live.patch(agent, {"max_items": 2})
    (path,) = re.findall(r'href="(/settings\?agent=[^"]+)"', (await client.get("/settings")).text)
    page = (await client.get(path)).text
    assert f'action="{path}"' in page
    assert (await send(client, path, page, max_total="3")).headers["location"] == path
    assert live.for_agent(agent).max_total == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/settings/planner", "/settings?agent=planner"),
        ("/settings/planner.json", "/settings.json?agent=planner"),
        ("/settings/a%2Fb", "/settings?agent=a%2Fb"),
    ],
)
async def test_the_former_address_of_an_agent_leads_to_its_page(client: httpx.AsyncClient, old: str, new: str) -> None:
    assert (await client.get(old)).headers["location"] == new


async def test_blanks_in_a_saved_list_do_not_look_like_a_change_of_others(
    client: httpx.AsyncClient, live: LiveSettings
) -> None:
    await live.patch(None, {"shared_users": ["maria ", " oscar"], "skip_patterns": ["ping ", "a", " b"]})
    page = (await client.get("/settings")).text
    typed = {"shared_users": "maria \r\n oscar\r\n\r\n ida ", "skip_patterns": "ping \r\nc\r\n b"}
    assert (await send(client, "/settings", page, **typed)).status_code == 303
    assert live.for_agent("a").shared_users == ("maria", "oscar", "ida")
    assert live.for_agent("a").skip_patterns == ("ping ", "c", " b")


async def test_a_value_of_the_agents_table_in_the_file_is_an_override(tmp_path: Path) -> None:
    file = tmp_path / "meeseeks.toml"
    file.write_text('[[agents]]\nid = "planner"\nmax_total = 4\n', encoding="utf-8")
    live = LiveSettings(Settings.load({}, file), Overrides())
    fields = {field.key: field for part in sections(SettingsResult(**live.view("planner"))) for field in part.fields}
    assert (fields["max_total"].own, fields["max_total"].overridden) == (True, False)
    assert not fields["max_items"].own


async def test_an_error_in_the_ambient_part_is_shown_while_that_is_switched_off(client: httpx.AsyncClient) -> None:
    page = (await client.get("/settings")).text
    assert 'class="ambient"' in page
    answer = await send(client, "/settings", page, pinned_limit="900")
    assert answer.status_code == 422
    assert 'class="ambient"' not in answer.text


async def test_a_change_based_on_an_old_version_is_refused(live: LiveSettings) -> None:
    await live.patch(None, {"max_total": 4}, version=0)
    with pytest.raises(SettingsConflict):
        await live.patch(None, {"max_total": 5}, version=0)
    assert live.for_agent("a").max_total == 4


async def test_the_page_is_json_too(client: httpx.AsyncClient) -> None:
    one = (await client.get("/settings.json?agent=planner")).json()
    assert one["agent"] == "planner"
    assert (await client.get("/settings.json")).json()["of"] == len(FIELDS)


@pytest.mark.parametrize("key", sorted(FIELDS))
def test_what_a_control_holds_is_the_value(key: str) -> None:
    value = InjectionConfig().model_dump(mode="json")[key]
    again = InjectionConfig.model_validate({key: value_of(key, text_of(key, value))})
    assert getattr(again, key) == getattr(InjectionConfig(), key)
