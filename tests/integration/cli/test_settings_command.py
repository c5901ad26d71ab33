"""`meeseeks settings` where no service runs: what the file and Redis say, and what is to be done."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import command_line
from tests.support.valkey import running_valkey

FILE = '[memory_injection]\nmax_total = 8\n[[agents]]\nid = "courier"\nenabled = false\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "meeseeks.toml").write_text(FILE, encoding="utf-8")
    return tmp_path


def settings(folder: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    done = command_line(folder, **variables).run("settings", *arguments, "--json")
    told: dict[str, Any] = json.loads(done.stdout)
    return {**told, "status": done.exit_code}


def test_without_a_service_the_file_counts_and_nothing_can_be_saved(folder: Path) -> None:
    shown = settings(folder, "--agent", "courier")
    place = f"{folder / 'meeseeks.toml'}:5"
    assert shown["memory_injection"]["enabled"] == {"value": False, "origin": "agent file", "at": place}
    assert shown["memory_injection_overridden"]
    refused = settings(folder, "set", "max_total", "5")
    assert refused["status"] == 1
    assert "meeseeks start" in refused["error"]
    assert "settings file" in refused["error"]
    assert not (folder / "data").exists(), "a look at settings must not make a store"


def test_a_file_that_is_wrong_is_an_error_where_nothing_runs(folder: Path) -> None:
    (folder / "meeseeks.toml").write_text("[memory_injection]\nmax_totl = 8\n", encoding="utf-8")
    told = settings(folder)
    assert told["status"] == 1
    assert told["error"].endswith("meeseeks.toml:2: memory_injection.max_totl: unknown key; did you mean max_total?")
    told = command_line(folder).json("doctor", exit_code=1)
    found = {check["name"]: check for check in told["checks"]}
    assert not found["settings file"]["ok"]
    assert found["store"]["ok"]


def test_with_redis_and_no_worker_settings_are_saved_all_the_same(folder: Path) -> None:
    with running_valkey() as valkey:
        saved = settings(folder, "set", "max_total", "5", MEESEEKS_REDIS_URL=valkey.url)
        variables = {"MEESEEKS_REDIS_URL": valkey.url}
        shell = command_line(folder, **variables)
        assert shell.ok("settings", "set", "max_total", "5").splitlines() == [
            "max_total = 5 (override), for all agents"
        ]
        assert shell.ok("settings", "get", "max_total").splitlines() == ["max_total = 5 (override)"]
        assert settings(folder, "get", "http_port", **variables)["key"] == "http_port"
        unknown = shell.run("settings", "get", "max_totl")
        assert (unknown.exit_code, "did you mean max_total?" in unknown.stderr) == (1, True)
        assert saved["memory_injection"]["max_total"]["origin"] == "override"
        shown = settings(folder, MEESEEKS_REDIS_URL=valkey.url)
        assert shown["memory_injection"]["max_total"]["value"] == 5
        refused = settings(folder, "set", "max_items", "many", MEESEEKS_REDIS_URL=valkey.url)
        assert refused["status"] == 1
        assert "memory_injection.max_items" in refused["error"]
