"""The settings pages, with the keyboard alone."""

from playwright.sync_api import expect

from tests.browser.conftest import Watched


def test_a_setting_is_changed_and_reverted_with_the_keyboard(watched: Watched) -> None:
    page = watched.open("/settings?agent=walker")
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
    expect(page.get_by_label("Per-type limit")).to_be_hidden()
    page.get_by_label("Enabled", exact=True).check()
    expect(page.get_by_label("Per-type limit")).to_be_visible()
    page.get_by_text("Advanced: the other").click()
    watched.assert_accessible()
    watched.assert_fits_a_phone()


def test_a_change_is_found_in_the_history_and_undone_with_the_keyboard(watched: Watched) -> None:
    page = watched.open("/settings?agent=undoer")
    field = page.get_by_label("Max items", exact=True)
    field.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Last change: local in the console")).to_be_visible()
    page.get_by_role("link", name="History").focus()
    page.keyboard.press("Enter")
    row = page.get_by_role("row").nth(1)
    expect(row).to_contain_text("Max items: 5 (default) → 2")
    watched.assert_accessible()
    row.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("row").nth(2)).to_contain_text("was undone already")
    watched.assert_fits_a_phone()
    watched.open("/settings?agent=undoer")
    expect(field).to_have_value("5")
    page.get_by_role("button", name="Undo").click()
    expect(field).to_have_value("2")


def test_every_kind_of_control_works_with_the_keyboard(watched: Watched) -> None:
    page = watched.open("/settings?agent=keys/only")
    page.get_by_label("Enabled", exact=True).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_label("goal (recommended)")).to_be_focused()
    page.keyboard.press("Space")
    page.get_by_label("Sort by").focus()
    page.keyboard.press("ArrowDown")
    page.get_by_label("Models", exact=True).focus()
    page.keyboard.type("ollama/one ")
    page.keyboard.press("Enter")
    page.keyboard.type("ollama/two")
    page.get_by_role("button", name="Save Changes").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Revert Sort by to default")).to_be_visible()
    expect(page.get_by_label("goal (recommended)")).to_be_checked()
    expect(page.get_by_label("Models", exact=True)).to_have_value("ollama/one\nollama/two")
    page.get_by_role("button", name="Revert all to Default").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Revert all to Default")).to_have_count(0)


def test_two_editors_in_two_windows_keep_each_others_changes(watched: Watched) -> None:
    mine = watched.open("/settings?agent=two")
    theirs = mine.context.new_page()
    theirs.goto(mine.url)
    for page, value in ((theirs, "4"), (mine, "3")):
        page.get_by_label("Max total", exact=True).fill(value)
        page.get_by_role("button", name="Save Changes").click()
    expect(mine.get_by_role("alert")).to_contain_text("Somebody else saved a value meanwhile")
    watched.faults.clear()  # the browser reports the status of the refused form
    expect(mine.get_by_text("Saved by somebody else meanwhile: 4.")).to_be_visible()
    expect(mine.get_by_label("Max total", exact=True)).to_have_value("3")
    mine.get_by_role("button", name="Save Changes").click()
    expect(mine.get_by_role("button", name="Revert Max total to default")).to_be_visible()
    theirs.reload()
    expect(theirs.get_by_label("Max total", exact=True)).to_have_value("3")
