"""The settings pages over real settings: every control, saving, reverting, and two editors."""

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import httpx
import pytest

from tests.support.console import browsing, token_in
from tests.support.http import Recorder
from tests.unit.settings.test_live_settings import Shelf
from worker.console.setting_fields import FIELDS, text_of, value_of
from worker.domain.errors import MeeseeksError, SettingsConflict
from worker.operations.requests import SettingsPatchRequest
from worker.operations.settings import SettingsOperations
from worker.settings.injection import InjectionConfig, Settings
from worker.settings.live import LiveSettings


@pytest.fixture
def live() -> LiveSettings:
    return LiveSettings(Settings(), Shelf())


@pytest.fixture
async def client(live: LiveSettings) -> AsyncIterator[httpx.AsyncClient]:
    operations = SettingsOperations(live)

    async def patch(payload: dict[str, Any]) -> Any:
        try:
            done = await operations.patch(SettingsPatchRequest.model_validate(payload), None)  # type: ignore[arg-type]
        except MeeseeksError as error:
            return error
        return done.model_dump(mode="json")

    answers = {"settings_get": lambda payload: live.view(payload.get("agent_id")), "settings_patch": patch}
    async with browsing(Recorder(answers)) as opened:
        yield opened


async def send(client: httpx.AsyncClient, path: str, page: str, **typed: str) -> httpx.Response:
    """Send the form of a page as a browser would, with some fields changed."""
    named = re.findall(r'<(?:input|textarea)[^>]* name="was\.(\w+)" value="([^"]*)"', page)
    fields: dict[str, Any] = {f"was.{key}": unescape(text) for key, text in named}
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


async def test_a_value_is_saved_for_one_agent_and_reverted(client: httpx.AsyncClient, live: LiveSettings) -> None:
    page = (await client.get("/settings/planner")).text
    assert (await send(client, "/settings/planner", page, max_total="3")).status_code == 303
    assert live.for_agent("planner").max_total == 3
    assert live.for_agent("other").max_total == 25
    page = (await client.get("/settings/planner")).text
    assert "saved for this agent; without it 25 (built in)" in page
    assert "1 agent differs" in (await client.get("/settings")).text
    assert (await send(client, "/settings/planner", page, revert="max_total")).status_code == 303
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


async def test_a_change_based_on_an_old_version_is_refused(live: LiveSettings) -> None:
    await live.patch(None, {"max_total": 4}, version=0)
    with pytest.raises(SettingsConflict):
        await live.patch(None, {"max_total": 5}, version=0)
    assert live.for_agent("a").max_total == 4


async def test_the_page_is_json_too(client: httpx.AsyncClient) -> None:
    one = (await client.get("/settings/planner.json")).json()
    assert one["agent"] == "planner"
    assert (await client.get("/settings.json")).json()["of"] == len(FIELDS)


@pytest.mark.parametrize("key", sorted(FIELDS))
def test_what_a_control_holds_is_the_value(key: str) -> None:
    value = InjectionConfig().model_dump(mode="json")[key]
    again = InjectionConfig.model_validate({key: value_of(key, text_of(key, value))})
    assert getattr(again, key) == getattr(InjectionConfig(), key)
