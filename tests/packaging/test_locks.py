"""The lock files are complete, hashed and consistent with pyproject.toml."""

import re
import tomllib

import pytest

from tests.support.paths import ROOT

LOCKS = ("service", "dev", "build", "local-llm", "uv")
PIN = re.compile(r"^([a-z0-9-]+)==([^ ;]+)(?: ; ([^\\]+?))? \\$")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def entries(lock: str) -> list[str]:
    """Split a lock file into one entry per package."""
    text = (ROOT / f"requirements/{lock}.txt").read_text()
    return re.split(r"\n(?=[a-z0-9])", re.sub(r"(?m)^ *#.*\n", "", text).strip())


def pins(lock: str) -> set[tuple[str, str, str | None]]:
    """Return version and environment marker by package."""
    found = [PIN.match(entry.splitlines()[0]) for entry in entries(lock)]
    assert all(found)
    return {(match[1], match[2], match[3]) for match in found if match}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_is_pinned_and_hashed(lock: str) -> None:
    assert len(pins(lock)) == len(entries(lock))
    for entry in entries(lock):
        hashes = entry.splitlines()[1:]
        assert hashes
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}(?: \\)?", line) for line in hashes)


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_contain_no_urls(lock: str) -> None:
    text = (ROOT / f"requirements/{lock}.txt").read_text()
    assert not re.search(r"://|--(extra-)?index-url|--find-links|file:", text)


def test_dev_and_service_locks_agree() -> None:
    """Markers may differ, as test tools may need a package on more platforms."""
    tested = {pin[:2] for pin in pins("dev")}
    assert {pin[:2] for pin in pins("service")} <= tested
    assert {pin[:2] for pin in pins("build") if pin[0] != "editables"} <= tested


def test_every_dependency_is_locked() -> None:
    named = {re.split(r"[^A-Za-z0-9-]", line)[0].lower() for line in PROJECT["dependencies"]}
    assert len(named) > 10
    assert named <= {pin[0] for pin in pins("service")}


def test_the_two_distributions_agree() -> None:
    client = tomllib.loads((ROOT / "hooks/pyproject.toml").read_text())["project"]
    assert client["version"] == PROJECT["version"]
    assert set(client["dependencies"]) <= set(PROJECT["dependencies"])
