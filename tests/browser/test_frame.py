"""What every page has: the head, the keys, the theme."""

import json

from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.support.stack import Stack, command


def test_the_overview_is_accessible(watched: Watched) -> None:
    page = watched.open("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    watched.assert_accessible()


def test_an_empty_tenant_shows_three_ways_to_begin(watched: Watched) -> None:
    page = watched.open("/?tenant=nobody")
    page.get_by_role("link", name="Three ways to begin").click()
    expect(page.get_by_role("heading", name="Three ways to begin")).to_be_visible()
    expect(page.get_by_role("region")).to_have_count(3)
    watched.assert_accessible()


def test_the_content_is_one_key_away(watched: Watched) -> None:
    page = watched.open("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_keys_are_listed_and_can_be_switched_off(watched: Watched) -> None:
    page = watched.open("/sign-in")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("g")
    with page.expect_navigation():  # until the script that reads the keys is there
        page.keyboard.press("o")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("?")
    page.get_by_label("Use these keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(dialog).to_be_hidden()


def test_the_theme_is_chosen_without_a_script(watched: Watched) -> None:
    page = watched.open("/")
    page.locator("details.menu summary").click()
    page.get_by_label("Theme").select_option("dark")
    page.get_by_label("Theme").locator("..").get_by_role("button").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("html")).to_have_css("background-color", "rgb(20, 23, 28)")


def test_pages_fit_a_phone(watched: Watched) -> None:
    watched.open("/")
    watched.assert_fits_a_phone()


def test_the_command_names_the_address(service: Stack) -> None:
    port = service.http.rpartition(":")[2]
    done = command(service.folder, "console", "--json", variables={"MEESEEKS_HTTP_PORT": port})
    assert json.loads(done.stdout) == {"url": f"{service.http}/", "opened": False}
    missing = command(service.folder, "console", variables={"MEESEEKS_HTTP_PORT": "1"})
    assert missing.returncode == 1
    assert "meeseeks start" in missing.stderr
