"""One service and one headless Chromium for all tests of the pages.

Playwright waits in an event loop of its own, in which no other runs: so these tests are not coroutines, and it is
stopped before any test outside this folder.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from tests.support.chromium import MISSING, PROGRAM
from tests.support.paths import ROOT
from tests.support.stack import HTTP, Stack, put, running_stack
from tests.support.upstream import keeping
from tests.support.upstream_thread import upstream_thread

AXE = ROOT / "tests/data/vendor/axe.min.js"
SERIOUS = {"serious", "critical"}
VIOLATIONS = """options => axe.run({...options, resultTypes: ["violations"]}).then(
    found => found.violations.map(one => [one.impact, one.id, one.nodes[0].html])
)"""
ARGUMENTS = ["--renderer-process-limit=1"]
"""One renderer for all pages, and none that is started in case it is wanted."""
PHONE: ViewportSize = {"width": 390, "height": 800}

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
        pytest.skip(MISSING)
    folder = tmp_path_factory.mktemp("console")
    settings = folder / "settings.toml"
    variables = {"MEESEEKS_MODEL": "none", "MEESEEKS_CONFIG": str(settings)}
    with upstream_thread(keeping(["lapse after 12"])) as model:
        settings.write_text(SETTINGS.format(url=model.url), encoding="utf-8")
        with running_stack(folder, "up", **variables, **HTTP) as stack:
            asyncio.run(put(stack.url, MEMORIES, "default"))
            stack.wait_for_model("openai/scripted")
            yield stack


class Chromium:
    """One window of Chromium for all tests of the pages.

    Its profile and its renderer serve them all: new ones for each test would take a second of a core.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._window: Page | None = None

    def window(self, url: str) -> Page:
        """Return the window, which shows a page of the service at `url`."""
        if self._window is None:
            self._window = self._open.enter_context(_window(url))
        return self._window

    def stop(self) -> None:
        self._open.close()
        self._window = None


@contextmanager
def _window(url: str) -> Iterator[Page]:
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=PROGRAM, args=ARGUMENTS) as browser,
    ):
        context = browser.new_context(
            viewport={"width": 1280, "height": 800}, locale="en-GB", timezone_id="UTC", reduced_motion="reduce"
        )
        context.set_default_timeout(20_000)  # a busy machine is slow
        expect.set_options(timeout=20_000)
        context.add_init_script(
            "addEventListener('securitypolicyviolation', e => console.error('refused: ' + e.violatedDirective))"
        )
        page = context.new_page()
        page.goto(f"{url}/sign-in")
        yield page


CHROMIUM = Chromium()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Stop Chromium after the last test of this folder."""
    yield
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        CHROMIUM.stop()


@pytest.fixture(scope="session")
def chromium(service: Stack) -> Iterator[Chromium]:
    yield CHROMIUM
    CHROMIUM.stop()  # of a run that ends at a failure


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
        self._styled()
        self.page.evaluate(_axe())
        for scheme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            self.page.emulate_media(color_scheme=scheme)
            found = self.page.evaluate(VIOLATIONS, options)
            assert not [(rule, html) for impact, rule, html in found if impact in SERIOUS], scheme

    def assert_fits_a_phone(self) -> None:
        self.page.set_viewport_size(PHONE)
        self._styled()
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def _styled(self) -> None:
        """Wait for the style sheet: a script that looks at a page earlier sees it without one."""
        self.page.wait_for_load_state()


@cache
def _axe() -> str:
    return AXE.read_text(encoding="utf-8")


@pytest.fixture
def watched(service: Stack, chromium: Chromium) -> Iterator[Watched]:
    """A fresh page that no error, no refused script and no request to another host may come from.

    Neither a cookie nor anything else that another test has stored is left.
    """
    window = chromium.window(service.http)
    context = window.context
    context.clear_cookies()
    window.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    page = context.new_page()
    seen = Watched(page, service.http)
    page.on("console", lambda message: seen.faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: seen.faults.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith(service.http) else seen.faults.append(f"left: {request.url}"),
    )
    yield seen
    for opened in context.pages[1:]:
        opened.close()
    assert seen.faults == []
