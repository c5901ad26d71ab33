"""Memories: search as one types, add, change, replace, forget and undo."""

from playwright.sync_api import expect

from tests.browser.conftest import Watched

HOSTILE = '"><script>document.title=1</script> <b onmouseover=alert(1)> {{7*7}}'


def test_search_as_one_types_with_scores(watched: Watched) -> None:
    page = watched.open("/memories")
    expect(page.locator("tbody tr").first).to_be_visible()
    watched.assert_accessible()
    page.keyboard.press("/")
    page.keyboard.type("how long are cabins held")
    expect(page.locator("#found thead")).to_contain_text("Score")
    expect(page.locator("#found tbody tr").first).to_contain_text("Cabin holds in berth")
    expect(page.locator("#found")).not_to_contain_text("Tyler")
    page.get_by_label("User").fill("tyler")
    expect(page.locator("#found")).to_contain_text("Tyler is lactose intolerant")
    assert "user=tyler" in page.url


def test_the_newest_come_first_and_words_find_whosever(watched: Watched) -> None:
    page = watched.open("/memories?q=lactose&by=words")
    expect(page.locator("#found tbody tr")).to_have_count(1)
    expect(page.locator("#found tbody tr").first).to_contain_text("tyler")


def test_a_memory_is_added_changed_replaced_forgotten_and_restored(watched: Watched) -> None:
    page = watched.open("/memory/new")
    watched.assert_accessible()
    page.get_by_label("Text", exact=True).fill("The ferry to Skagen leaves at seven")
    page.get_by_label("Importance").fill("much")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("importance: write a number from 0 to 1")
    watched.faults.clear()  # the browser reports the status of the refused form
    expect(page.get_by_label("Text", exact=True)).to_have_value("The ferry to Skagen leaves at seven")
    page.get_by_label("Importance").fill("0.7")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The ferry to Skagen leaves at seven")

    page.get_by_role("link", name="Change").click()
    page.get_by_label("Cues").fill("when do we leave for Skagen?")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("when do we leave for Skagen?")).to_be_visible()

    page.get_by_role("link", name="Replace").click()
    page.get_by_label("Text", exact=True).fill("The ferry to Skagen leaves at eight")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("img", name="The memory with what it is related to")).to_be_visible()
    watched.assert_accessible()
    page.get_by_role("link", name="The ferry to Skagen leaves at seven").click()
    expect(page.get_by_text("Outdated")).to_be_visible()

    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("status")).to_have_text("Forgot 1 memory.")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The ferry to Skagen leaves at seven")


def test_hostile_texts_names_and_ids_do_nothing(watched: Watched) -> None:
    page = watched.open("/memory/new")
    page.get_by_label("Text", exact=True).fill(HOSTILE)
    page.get_by_label("Only in the project").fill('p" autofocus onfocus=alert(1) x="')
    page.get_by_label("Cues").fill("<svg onload=alert(1)>")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("<script>document.title=1</script>")
    expect(page.get_by_text("<svg onload=alert(1)>")).to_be_visible()
    watched.open("/memories?q=onmouseover&by=words")
    expect(page.locator("#found tbody tr").first).to_contain_text("{{7*7}}")
    assert "Meeseeks" in page.title()


def test_many_are_forgotten_at_once(watched: Watched) -> None:
    for number in (1, 2):
        page = watched.open("/memory/new")
        page.get_by_label("Text", exact=True).fill(f"Lighthouse keeper number {number} is called Aksel")
        page.get_by_role("button", name="Save").click()
    page = watched.open("/memories?q=Lighthouse&by=words")
    page.get_by_label("Choose all").check()
    page.keyboard.press("j")  # a box takes no letters, so the keys still work
    expect(page.locator("tr[data-row] a").first).to_be_focused()
    page.get_by_role("button", name="Forget the chosen").click()
    expect(page.get_by_role("status")).to_have_text("Forgot 2 memories.")


def test_an_unknown_memory_is_said_to_be_unknown(watched: Watched) -> None:
    page = watched.open("/memory?id=nothing")
    expect(page.get_by_role("alert")).to_contain_text("there is no memory 'nothing'")
    watched.faults.clear()  # the browser reports the status


def test_files_are_previewed_before_they_are_imported(watched: Watched) -> None:
    page = watched.open("/memories/import")
    notes = "# Decisions\n\n- Berths are numbered from the bow\n- <img src=x onerror=alert(1)> is only a text\n"
    page.get_by_label("Files").set_input_files(
        {"name": "notes.md", "mimeType": "text/markdown", "buffer": notes.encode()}
    )
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("status")).to_contain_text("Nothing is stored yet. It would become 2 memories")
    expect(page.locator("#report")).to_contain_text("<img src=x onerror=alert(1)>")
    watched.assert_accessible()
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("status")).to_contain_text("2 created")
    with page.expect_download() as started:
        watched.page.evaluate("() => { location.href = '/memories/export?format=jsonl' }")
    assert "Berths are numbered from the bow" in started.value.path().read_text(encoding="utf-8")
