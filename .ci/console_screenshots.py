"""Take the pictures of docs/console.md: a service with example memories, a few requests, and headless Chromium."""

import asyncio
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

from hooks import PreExecutionHook
from hooks.queue import QueueClient
from tests.support.chromium import MISSING, PROGRAM
from tests.support.paths import ROOT
from tests.support.stack import HTTP, put, running_stack
from worker.operations.registry import SETTINGS_PATCH

IMAGES = ROOT / "docs/img"
MEMORIES = (
    ("berth", "fact", "Cabin holds in berth lapse after 12 minutes", "2026-08-05T09:00:00Z", {}),
    ("berth-old", "fact", "Cabin holds used to lapse after 20 minutes", "2026-05-01T09:00:00Z", {}),
    ("checkout", "decision", "The checkout shows a countdown for held cabins", "2026-06-11T09:00:00Z", {}),
    ("tyler", "identity", "Tyler is lactose intolerant", "2026-03-02T09:00:00Z", {"user": "tyler"}),
    ("deploy", "todo", "Deploy the checkout before the summer timetable", "2026-07-20T09:00:00Z", {}),
    ("skagen", "event", "The Skagen ferry was late because of fog", "2026-02-14T09:00:00Z", {}),
)
CHANGES = (
    ("oscar", "console", None, {"max_items": 4, "ambient_enabled": True, "pinned_types": ["todo", "goal"]}),
    ("ida", "cli", "planner", {"max_total": 3}),
    ("oscar", "http", None, {"max_items": 5}),
    ("ida", "console", "planner", {"max_total": 6, "mode": "escalate"}),
)
MESSAGES = (
    "hello",
    "Which ferry was late because of fog?",
    "How long do cabin holds in berth last before they lapse?",
)


async def _prepare(url: str) -> str:
    rows = [
        {"id": key, "type": kind, "content": text, "created_at": at, "scope": scope}
        for key, kind, text, at, scope in MEMORIES
    ]
    await put(url, [*rows], "default")
    await _change_settings(url)
    receipt = ""
    async with PreExecutionHook(url) as hook:
        for number, message in enumerate(MESSAGES):
            request = {"session_id": f"s{number}", "agent_id": "planner", "message": message, "deadline_ms": 3000}
            receipt = (await hook(request)).receipt_id or ""
    return receipt


async def _change_settings(url: str) -> None:
    client = QueueClient(url)
    try:
        for name, via, agent, values in CHANGES:
            change = {"agent_id": agent, "values": values, "author": {"name": name, "via": via}}
            await client.ask(SETTINGS_PATCH.name, change, budget=10.0, ack_timeout=5.0)
    finally:
        await client.aclose()


def _take(page: Page, address: str, name: str) -> None:
    page.goto(address)
    page.screenshot(path=IMAGES / f"{name}.png")


def _evaluated(page: Page, address: str) -> str:
    """Evaluate a set of cases, and return the address of the result."""
    page.goto(address)
    page.get_by_label("Cases").select_option("translation-desk")
    page.get_by_role("button", name="Start").click()
    page.get_by_role("link", name="translation-desk").click(timeout=120_000)
    return page.url


def main() -> None:
    assert PROGRAM, MISSING
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder), "up", **_variables(folder)) as stack:
        receipt = asyncio.run(_prepare(stack.url))
        with sync_playwright() as playwright, playwright.chromium.launch(executable_path=PROGRAM) as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce", locale="en-GB")
            _take(page, f"{stack.http}/", "console-overview")
            _take(page, f"{stack.http}/requests", "console-requests")
            _take(page, f"{stack.http}/requests/{receipt}?memory=tyler", "console-request")
            _take(page, f"{stack.http}/memories?q=how+long+are+cabins+held", "console-memories")
            _take(page, f"{stack.http}/settings?agent=planner", "console-settings")
            _take(page, f"{stack.http}/settings/history", "console-settings-history")
            _take(page, f"{stack.http}/playground?agent=planner&message={quote(MESSAGES[1])}", "console-playground")
            _take(page, _evaluated(page, f"{stack.http}/playground/evaluations"), "console-evaluation")


def _variables(folder: str) -> dict[str, str]:
    settings = Path(folder) / "settings.toml"
    settings.write_text('[memory_injection]\nstrategy = "deterministic"\n', encoding="utf-8")
    return {"MEESEEKS_MODEL": "none", "MEESEEKS_CONFIG": str(settings), **HTTP}


if __name__ == "__main__":
    main()
