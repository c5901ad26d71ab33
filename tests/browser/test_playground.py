"""The playground: candidates and block as one types, another prompt beside the one in force, and no trace of it."""

import httpx
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Watched
from tests.support.stack import Stack

MESSAGE = "How long do cabin holds in berth last before they lapse?"

EVALUATED_MS = 120_000
"""Evaluations run at a low priority: on a busy machine they take long."""


def requests_of(service: Stack) -> list[str]:
    return [one["id"] for one in httpx.get(f"{service.http}/requests.json").json()["rows"]]


def test_candidates_and_block_appear_as_one_types(watched: Watched, service: Stack) -> None:
    before = requests_of(service)
    page = watched.open("/")
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.get_by_role("heading", name="Playground")).to_be_visible()
    page.wait_for_load_state()  # or nothing listens to the keys yet
    page.keyboard.press("/")
    page.keyboard.type(MESSAGE)
    scores = page.get_by_role("region", name="Search scores")
    expect(scores.locator("pre")).to_contain_text("12 minutes")
    expect(page.get_by_role("region", name="Relevance model")).to_contain_text("The built-in relevance model decided")
    candidates = page.get_by_role("region", name="Candidates")
    expect(candidates.locator("tbody tr").first).to_contain_text("given")
    expect(candidates).to_contain_text("probability")
    watched.assert_accessible()
    page.get_by_label("User").fill("tyler")
    page.get_by_label("Message").fill("What dessert may Tyler have?")
    expect(candidates).to_contain_text("Tyler is lactose intolerant")
    assert requests_of(service) == before


def test_another_prompt_is_compared_with_the_one_in_force(watched: Watched, service: Stack) -> None:
    before = requests_of(service)
    page = watched.open("/playground")
    expect(page.get_by_text("No model is configured for this agent")).to_be_visible()
    page = watched.open(f"/playground?agent=planner&message={MESSAGE}")
    prompt = page.get_by_label("Prompt, beginning with triage@2")
    prompt.fill(prompt.input_value().replace("You choose memories", "You choose notes"))
    expect(page.get_by_text("Asking the model")).to_be_hidden()
    page.get_by_role("button", name="Ask openai/scripted").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="With the edited prompt").locator("pre")).to_contain_text("12 minutes")
    expect(page.get_by_role("status").filter(has_text="Both choose the same")).to_be_visible()
    watched.assert_accessible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as a file").click()
    assert saved.value.suggested_filename == "triage-draft.md"
    assert "You choose notes" in saved.value.path().read_text(encoding="utf-8")
    prompt.fill("no prompt")
    page.get_by_role("button", name="Ask openai/scripted").click()
    expect(page.get_by_role("alert")).to_contain_text("must start with front matter")
    expect(prompt).to_have_value("no prompt")
    assert requests_of(service) == before
    watched.faults.clear()  # the browser reports the status of the refused form


def test_it_works_without_a_script_and_on_a_phone(watched: Watched) -> None:
    watched.page.route("**/*.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    watched.page.set_viewport_size(PHONE)
    page = watched.open("/playground")
    page.get_by_label("Message").fill(MESSAGE)
    page.get_by_role("button", name="Try").click()
    expect(page.get_by_role("region", name="Search scores").locator("pre")).to_contain_text("12 minutes")
    watched.assert_fits_a_phone()


def test_labelled_cases_are_evaluated_from_the_page(watched: Watched, service: Stack) -> None:
    page = watched.open("/playground/evaluations")
    page.get_by_label("Cases").select_option("translation-desk")
    page.get_by_label("Chosen by").select_option("deterministic")
    page.get_by_label("Most dollars").fill("much")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("max_cost")
    watched.faults.clear()  # the browser reports the status of the refused form
    page.get_by_label("Most dollars").fill("1")
    watched.assert_accessible()
    page.get_by_role("button", name="Start").click()
    page.get_by_role("link", name="translation-desk").click(timeout=EVALUATED_MS)
    expect(page.get_by_role("img", name="Rates from 0 to 1")).to_be_visible()
    expect(page.get_by_role("img", name="Share of the answers")).to_be_visible()
    watched.assert_accessible()
    watched.assert_fits_a_phone()


def test_two_evaluations_are_compared(watched: Watched) -> None:
    page = watched.open("/playground/evaluations")
    boxes = page.get_by_role("checkbox", name="Compare translation-desk")
    ended = boxes.count()  # another test may have left one
    for strategy in ("deterministic", "relevance")[min(ended, 1) :]:
        page.get_by_label("Cases").select_option("translation-desk")
        page.get_by_label("Chosen by").select_option(strategy)
        page.get_by_role("button", name="Start").click()
        ended += 1
        expect(boxes).to_have_count(ended, timeout=EVALUATED_MS)
    boxes.nth(0).check()
    boxes.nth(1).check()
    watched.assert_accessible()
    page.get_by_role("button", name="Compare two").click()
    expect(page.get_by_role("heading", name="Two evaluations compared")).to_be_visible()
    expect(page.get_by_role("heading", name="Cases that became right")).to_be_visible()
    watched.assert_accessible()


def test_an_evaluation_is_stopped_from_the_page(watched: Watched) -> None:
    page = watched.open("/playground/evaluations")
    page.get_by_label("Cases").select_option("shipped")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("region", name="Running")).to_contain_text("tasks", timeout=EVALUATED_MS)
    watched.assert_accessible()
    page.get_by_role("button", name="Stop it").click()
    expect(page.locator("tbody tr").first).to_contain_text("Stopped", timeout=EVALUATED_MS)
