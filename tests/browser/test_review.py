"""Review: what was said in a conversation becomes a memory with one click, or is rejected."""

from playwright.sync_api import expect

from tests.browser.conftest import Watched


def test_what_waits_is_kept_in_other_words_or_rejected(watched: Watched) -> None:
    page = watched.open("/review")
    expect(page.get_by_role("status").filter(has_text="Nothing waits")).to_be_visible()
    turns = [
        {"role": "user", "text": f"Remember that {one}"} for one in ("the ferry leaves at six", "bring the blue rope")
    ]
    body = {"session_id": "review", "turns": turns, "mode": "review"}
    assert page.request.post(f"{watched.url}/v1/capture", data=body).ok
    page = watched.open("/review")
    watched.assert_accessible()
    ferry = page.get_by_role("region", name="the ferry leaves at six")
    ferry.get_by_label("Text").fill("The ferry leaves at six in summer")
    ferry.get_by_role("button", name="Keep it").click()
    page.get_by_role("button", name="Reject it").click()
    expect(page.get_by_role("status").filter(has_text="Nothing waits")).to_be_visible()
    page = watched.open("/memories?q=ferry+summer&by=words")
    expect(page.locator("#found tbody tr")).to_have_count(1)
