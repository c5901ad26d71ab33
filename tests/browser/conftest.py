"""One service and one headless Chromium for all tests of the pages.

Playwright waits in an event loop of its own, in which no other runs: so these tests are not coroutines, and it is
stopped after each file.
"""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.paths import ROOT
from tests.support.stack import HTTP, Stack, put, running_stack
from tests.support.upstream import keeping
from tests.support.upstream_thread import upstream_thread

NAMES = ("chromium", "chromium-browser")
PROGRAM = next((path for name in NAMES if (path := shutil.which(name))), None)
AXE = ROOT / "tests/data/vendor/axe.min.js"
AXE_PATH = "/static/axe.min.js"
SERIOUS = {"serious", "critical"}

MEMORIES: list[dict[str, Any]] = [
    {
        "id": "berth",
        "content": "Cabin holds in berth lapse after 12 minutes",
        "type": "fact",
        "created_at": "2026-08-05T09:00:00Z",
    },
    {
        "id": "berth-old",
        "content": "Cabin holds in berth lapse after 20 minutes",
        "type": "fact",
        "created_at": "2026-05-01T09:00:00Z",
    },
    {
        "id": "tyler",
        "content": "Tyler is lactose intolerant",
        "type": "identity",
        "scope": {"user": "tyler"},
        "created_at": "2026-03-02T09:00:00Z",
    },
]

SETTINGS = """
[memory_injection]
strategy = "deterministic"
learn_cues = false

[[agents]]
id = "planner"
models = ["openai/scripted"]

[[service.models]]
name = "openai/scripted"
api_base = "{url}/v1"
"""
"""Only the agent `planner` has a model."""


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    if PROGRAM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    folder = tmp_path_factory.mktemp("console")
    settings = folder / "settings.toml"
    variables = {"MEESEEKS_MODEL": "none", "MEESEEKS_CONFIG": str(settings)}
    with upstream_thread(keeping(["lapse after 12"])) as model:
        settings.write_text(SETTINGS.format(url=model.url), encoding="utf-8")
        with running_stack(folder, "up", **variables, **HTTP) as stack:
            asyncio.run(put(stack.url, MEMORIES, "default"))
            stack.wait_for_model("openai/scripted")
            yield stack


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM)
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page, and whatever went wrong on it."""

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def assert_accessible(self) -> None:
        """Let axe look at the page, and at its colours in both themes, which differ in nothing else."""
        self.page.add_script_tag(url=AXE_PATH)
        for scheme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            self.page.emulate_media(color_scheme=scheme)
            found = self.page.evaluate("options => axe.run(options)", options)["violations"]
            assert not [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in SERIOUS], scheme


@pytest.fixture
def watched(service: Stack, chromium: Browser) -> Iterator[Watched]:
    """A fresh browser window that no error, no refused script and no request to another host may come from."""
    context = chromium.new_context(
        viewport={"width": 1280, "height": 800}, locale="en-GB", timezone_id="UTC", reduced_motion="reduce"
    )
    context.set_default_timeout(20_000)  # a busy machine is slow
    expect.set_options(timeout=20_000)
    context.add_init_script(
        "addEventListener('securitypolicyviolation', e => console.error('refused: ' + e.violatedDirective))"
    )
    context.route(f"**{AXE_PATH}", lambda route: route.fulfill(path=AXE, content_type="text/javascript"))
    page = context.new_page()
    seen = Watched(page, service.http)
    page.on("console", lambda message: seen.faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: seen.faults.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith(service.http) else seen.faults.append(f"left: {request.url}"),
    )
    yield seen
    context.close()
    assert seen.faults == []
