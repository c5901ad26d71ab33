"""The settings pages, with the keyboard alone."""

from playwright.sync_api import expect

from tests.browser.conftest import Watched


def test_a_setting_is_changed_and_reverted_with_the_keyboard(watched: Watched) -> None:
    page = watched.open("/settings/walker")
    field = page.get_by_label("Max total", exact=True)
    for _ in range(60):
        page.keyboard.press("Tab")
        if field.evaluate("one => one === document.activeElement"):
            break
    expect(field).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    revert = page.get_by_role("button", name="Revert Max total to default")
    expect(revert).to_be_visible()
    expect(field).to_have_value("3")
    revert.focus()
    page.keyboard.press("Enter")
    expect(revert).to_have_count(0)
    expect(field).to_have_value("25")


def test_the_settings_are_accessible_and_show_more_for_ambient_memories(watched: Watched) -> None:
    page = watched.open("/settings")
    expect(page.get_by_label("Pinned limit")).to_be_hidden()
    page.get_by_label("Ambient enabled").check()
    expect(page.get_by_label("Pinned limit")).to_be_visible()
    page.get_by_text("Advanced: the other").click()
    watched.assert_accessible()
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
