"""`meeseeks console` opens a browser only where there is a window for it."""

import pytest

from worker.cli.console import has_browser


@pytest.mark.parametrize(
    ("environ", "platform", "opens"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"DISPLAY": ":10", "SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}, "linux", False),
        ({}, "darwin", True),
    ],
)
def test_a_browser_needs_a_window(environ: dict[str, str], platform: str, opens: bool) -> None:
    assert has_browser(environ, platform) is opens
