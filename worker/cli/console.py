"""`meeseeks console`: opens the pages of the running service in a browser."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import suppress

import httpx
import typer

from .options import settings_of
from .output import answer, fail

FIND_S = 2.0
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - an address to reach, not one to bind
"""Addresses at which this machine reaches a service that is bound to all of its addresses."""


def console(context: typer.Context) -> None:
    """Open the console in the browser, or print its address where there is none."""
    service = settings_of(context).service
    if service.http_port == 0:
        fail("http_port is 0, so that the port changes with each start; `meeseeks up` prints the address")
    host = ANYWHERE.get(service.http_host, service.http_host)
    bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host
    url = f"http://{bracketed}:{service.http_port}/"
    if not _answers(url):
        fail(f"no service answers at {url}; start it with `meeseeks start`")
    opened = has_browser(os.environ, sys.platform) and webbrowser.open(url)
    answer({"url": url, "opened": opened}, f"opened {url}" if opened else url)


def _answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{url}healthz", timeout=FIND_S, trust_env=False).is_success
    return False


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """Return whether a browser could show a window; one that runs in the terminal would take it over."""
    if "SSH_CONNECTION" in environ:
        return False
    return platform in ("darwin", "win32") or any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
