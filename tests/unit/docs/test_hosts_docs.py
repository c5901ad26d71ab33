"""The page about hosts has every host, with everything that its row says."""

import runpy
from dataclasses import fields

import pytest

from tests.support.paths import ROOT
from worker.hosts import HOSTS, HostProfile
from worker.hosts.profile import Role

DOCS = ROOT / "docs"
PAGE = (DOCS / "hosts.md").read_text(encoding="utf-8")
SAID_OTHERWISE = {"name", "title", "retention", "limit", "nothing", "followed", "settings", "paste", "example"}


def test_the_page_is_up_to_date() -> None:
    assert runpy.run_path(str(DOCS / "generate.py"))["PAGES"]["hosts.md"]() == PAGE, "run python docs/generate.py"


@pytest.mark.parametrize("host", HOSTS.values(), ids=lambda host: host.name)
def test_every_host_has_a_row_and_a_section(host: HostProfile) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{host.name}` |")]
    section = PAGE.partition(f"\n## {host.title.removesuffix(' CLI')}\n")[2].partition("\n## ")[0]
    assert f"meeseeks hosts install {host.name}" in section
    for event in host.events:
        assert f"`{event.name}`" in row + section
        assert (f"`{event.name}`" in row) == (event.installed and event.role is not Role.ANNOUNCES)


def test_whoever_adds_a_host_is_told_of_every_field() -> None:
    told = PAGE.partition("## Another host")[2]
    assert not [
        one.name for one in fields(HostProfile) if one.name not in SAID_OTHERWISE and f"`{one.name}`" not in told
    ]
