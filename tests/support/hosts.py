"""Golden fixtures of hosts: native events, what they ask for, and the native answers to them.

A fixture has the `event` and at most one of `inject`, `follow`, `announce` and `start`, with the fields that must be
asked for; without any of them the event asks for nothing. `with_block` is the output for a block, `followed` the one
for a session event, where that is not the host's "nothing".
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.paths import ROOT
from worker.hosts import HOSTS, HostProfile

FOLDER = ROOT / "tests" / "data" / "hosts"


@dataclass(frozen=True)
class Fixture:
    """One golden fixture; `name` is `<host>/<file>`."""

    host: HostProfile
    name: str
    raw: dict[str, Any]

    @property
    def event(self) -> dict[str, Any]:
        event: dict[str, Any] = self.raw["event"]
        return event

    def __str__(self) -> str:
        return self.name


def fixtures(asking: str | None = None) -> list[Fixture]:
    """Every fixture, or those that ask for one thing."""
    return [one for one in _all() if asking is None or asking in one.raw]


def _all() -> Iterator[Fixture]:
    for name, host in HOSTS.items():
        for path in sorted((FOLDER / name).glob("*.json")):
            yield Fixture(host, f"{name}/{path.stem}", json.loads(path.read_text(encoding="utf-8")))


def event_of(name: str) -> dict[str, Any]:
    """The event of the fixture `<host>/<file>`."""
    return next(one.event for one in _all() if one.name == name)
