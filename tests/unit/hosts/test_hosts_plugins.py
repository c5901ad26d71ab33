"""The plugin folders: made from the table of hosts, and what their hosts read."""

import json
import re
import runpy
from typing import Any

import pytest

from tests.support.paths import ROOT
from worker.hosts import HOSTS
from worker.hosts.settings_edit import found

PLUGINS = ROOT / "plugins"
FILES: dict[str, str] = runpy.run_path(str(PLUGINS / "generate.py"))["files"]()
HOOKS = {"claude-code": "claude-code/hooks/hooks.json", "codex": "codex/hooks.json"}


def test_every_file_is_up_to_date_and_there_is_no_other() -> None:
    there = {path.relative_to(PLUGINS).as_posix() for path in PLUGINS.rglob("*") if path.is_file()}
    made_here = {"generate.py"} | {name for name in there if "__pycache__" in name}
    assert there - made_here == set(FILES), "run python plugins/generate.py"
    for name, text in FILES.items():
        assert (PLUGINS / name).read_text(encoding="utf-8") == text, f"{name}: run python plugins/generate.py"


@pytest.mark.parametrize("host", HOOKS)
def test_hooks_are_those_of_the_hosts_row(host: str) -> None:
    text = FILES[HOOKS[host]]
    profile = HOSTS[host]
    document = json.loads(text)
    assert set(document) == {"description", "hooks"}, "Codex refuses every other key"
    assert [one.event for one in found(text, profile, host)] == [one.name for one in profile.events if one.installed]
    for event in profile.events:
        for group in document["hooks"].get(event.name, []):
            assert group.get("matcher") == event.matcher
            (handler,) = group["hooks"]
            assert handler == {"type": "command", "command": f"meeseeks-hook {host}", "timeout": 4}


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith("plugin.json")])
def test_manifests_have_what_hosts_ask_for(name: str) -> None:
    manifest: dict[str, Any] = json.loads(FILES[name])
    assert re.fullmatch(r"[a-z][a-z0-9-]*", manifest["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    if "hooks" in manifest:
        assert manifest["hooks"].startswith("./")
        assert (PLUGINS / name).parents[1].joinpath(manifest["hooks"]).is_file()


def test_the_marketplace_names_plugins_that_are_there() -> None:
    for plugin in json.loads(FILES[".claude-plugin/marketplace.json"])["plugins"]:
        manifest = PLUGINS / plugin["source"] / ".claude-plugin/plugin.json"
        assert json.loads(manifest.read_text(encoding="utf-8"))["name"] == plugin["name"]


def test_the_skill_is_that_of_the_prompts() -> None:
    prompts = PLUGINS.parent / "prompts" / "memory-search"
    for path in prompts.rglob("*"):
        if path.is_file():
            copy = f"claude-code/skills/memory-search/{path.relative_to(prompts).as_posix()}"
            assert FILES[copy] == path.read_text(encoding="utf-8")
