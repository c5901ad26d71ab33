"""Entries in Python for tests of automations."""

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]
NOT_CALLABLE = 7


def plain(event: Event) -> dict[str, Any]:
    return {"fire": True, "enrich": {"notes": [f"plain {event['message']}"]}}


async def asynchronous(event: Event) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"enrich": {"notes": [f"asynchronous after {event['enrichment'].get('notes')}"]}}


def nothing(event: Event) -> None:
    Path(event["trace"]).write_text("ran", encoding="utf-8")


def hang(event: Event) -> None:
    time.sleep(event["seconds"])


async def hang_asynchronously(event: Event) -> None:
    await asyncio.sleep(30)


async def stubborn(event: Event) -> None:
    """Does not let itself be cancelled for a while."""
    end = time.monotonic() + event["seconds"]
    while time.monotonic() < end:
        try:
            await asyncio.sleep(end - time.monotonic())
        except asyncio.CancelledError:
            continue


def crash(event: Event) -> None:
    raise KeyError("private words")


async def crash_asynchronously(event: Event) -> None:
    raise KeyError("private words")


def leave(event: Event) -> None:
    sys.exit(3)


async def leave_asynchronously(event: Event) -> None:
    sys.exit(3)


def stop(event: Event) -> None:
    raise StopIteration


async def cancel(event: Event) -> None:
    raise asyncio.CancelledError


def text(event: Event) -> str:
    return "no mapping"


class Counting:
    """Counts the calls of one object."""

    closed: list[int] = []  # noqa: RUF012 - what the test looks at

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, event: Event) -> dict[str, Any]:
        self.calls += 1
        return {"enrich": {"calls": self.calls, "folder": event.get("workspace_dir", "")}}

    async def aclose(self) -> None:
        self.closed.append(self.calls)
