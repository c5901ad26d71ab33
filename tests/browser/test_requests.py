"""Requests: the live list, one request with its reasons, a question about a memory, a label, and running it again."""

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from hooks import InjectionResult, PreExecutionHook
from tests.browser.conftest import Watched
from tests.support.load import Stopwatch
from tests.support.stack import HTTP, Stack, running_stack

MESSAGE = "How long do cabin holds in berth last before they lapse?"
HOSTILE = '<img src=x onerror="document.title=1"> </td><script>document.title=2</script> {{7*7}} javascript:alert(1)'

Ask = Callable[..., InjectionResult]


async def _asked(url: str, message: str, **fields: Any) -> InjectionResult:
    async with PreExecutionHook(url) as hook:
        return await hook({"session_id": "s1", "message": message, "deadline_ms": 3000, **fields})


def _with_receipt(service: Stack, result: InjectionResult) -> InjectionResult:
    """Return the result when its receipt is kept, which is written after the answer."""
    until = time.monotonic() + 20
    while httpx.get(f"{service.http}/v1/receipts/{result.receipt_id}").status_code != 200:
        assert time.monotonic() < until, result
        time.sleep(0.05)
    return result


@pytest.fixture(scope="module")
def ask(service: Stack) -> Ask:
    """Ask as a host does; in another thread, since this one has Playwright's event loop."""

    def asked(message: str, **fields: Any) -> InjectionResult:
        until = time.monotonic() + 20
        result = None
        while result is None or result.receipt_id is None:  # a busy machine may answer too late
            assert time.monotonic() < until, result
            with ThreadPoolExecutor(1) as thread:
                result = thread.submit(lambda: asyncio.run(_asked(service.url, message, **fields))).result()
        return _with_receipt(service, result)

    return asked


def test_new_requests_appear_and_lead_to_the_reason(watched: Watched, ask: Ask) -> None:
    page = watched.open("/requests")
    ask(MESSAGE, turn_id="first")
    row = page.locator("tbody tr").first
    expect(row).to_contain_text(MESSAGE)
    expect(row).to_contain_text("memor")
    watched.assert_accessible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(MESSAGE)
    expect(page.locator("#block")).to_contain_text("12 minutes")
    expect(page.get_by_role("img", name="Where the time went")).to_be_visible()
    watched.assert_accessible()


def test_a_question_about_a_memory_is_answered(watched: Watched, ask: Ask) -> None:
    result = ask(MESSAGE, turn_id="second", session_id="s2")
    page = watched.open(f"/requests/{result.receipt_id}")
    page.get_by_label("Id of a memory that you expected").fill("tyler")
    page.get_by_role("button", name="Why did it not come?").click()
    expect(page.get_by_role("status").first).to_contain_text("it belongs to the user tyler; this request named no user")


def test_a_label_becomes_a_case(watched: Watched, ask: Ask, service: Stack) -> None:
    result = ask(MESSAGE, turn_id="third", session_id="s3")
    page = watched.open(f"/requests/{result.receipt_id}")
    page.get_by_role("button", name="Keep as a labelled case").click()
    expect(page.get_by_role("status").first).to_contain_text("Kept as the case")
    lines = (service.folder / "data/cases/default.jsonl").read_text(encoding="utf-8").splitlines()
    tasks = [one for one in map(json.loads, lines) if "message" in one]
    assert tasks[-1]["essential"]
    assert tasks[-1]["message"] == MESSAGE


def test_a_request_is_run_again_with_another_setting(watched: Watched, ask: Ask) -> None:
    result = ask(MESSAGE, turn_id="fourth", session_id="s4")
    page = watched.open(f"/requests/{result.receipt_id}/replay")
    page.get_by_label("Other settings").fill("enabled = false")
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_role("heading", name="It gets something else now")).to_be_visible()
    expect(page.locator("tr.changed").first).to_be_visible()
    watched.assert_accessible()
    page.get_by_label("Other settings").fill("max_items = much")
    watched.faults.clear()
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_role("alert")).to_contain_text("max_items")
    watched.faults.clear()  # the browser reports the status of the refused form


def test_filters_stand_in_the_address(watched: Watched, ask: Ask) -> None:
    ask("hello", turn_id="fifth", session_id="s5")
    page = watched.open("/requests?outcome=skipped")
    expect(page.locator("tbody tr").first).to_contain_text("a greeting")
    assert page.locator("tbody tr").filter(has_text=MESSAGE).count() == 0
    page.get_by_label("Words of the message").fill("nothing like it")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("No request fits these filters")).to_be_visible()


def test_hostile_messages_do_nothing(watched: Watched, ask: Ask) -> None:
    result = ask(
        HOSTILE, turn_id="sixth", session_id='s"><script>', agent_id="<b>agent", scope={"user": "'x' onclick=y"}
    )
    page = watched.open("/requests")
    expect(page.locator("tbody tr").first).to_contain_text("<script>document.title=2</script> {{7*7}}")
    watched.open(f"/requests/{result.receipt_id}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("<img src=x")
    assert "Meeseeks" in page.title()


def test_the_list_is_not_followed_unseen(watched: Watched) -> None:
    watched.page.add_init_script("Object.defineProperty(document, 'hidden', {get: () => window.unseen === true})")
    page = watched.open("/requests")
    with page.expect_request("**/requests/live*"):
        page.evaluate(
            "() => { window.unseen = true; document.dispatchEvent(new Event('visibilitychange'));"
            "window.unseen = false; document.dispatchEvent(new Event('visibilitychange')); }"
        )


def test_the_service_stops_while_lists_are_followed(tmp_path: Path, watched: Watched) -> None:
    """Without the end of the streams, it would wait for them as long as it waits for requests."""
    with running_stack(tmp_path, "up", MEESEEKS_MODEL="none", MEESEEKS_EMBEDDER="none", **HTTP) as other:
        watched.page.goto(f"{other.http}/requests")
        watched.page.wait_for_timeout(300)
        watch = Stopwatch()
        assert other.stop() == 0
        assert watch.seconds < 3
    watched.faults.clear()
