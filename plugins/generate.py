"""Generate the plugin folders from the table of hosts and the skill: `python plugins/generate.py`.

A test fails if they are outdated.
"""

import json
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from worker.hosts import HOSTS  # noqa: E402
from worker.hosts.settings_edit import HandlerKind, wanted  # noqa: E402

NAME = "meeseeks"
DESCRIPTION = "Automatic memory for AI agents: adds relevant memories before each prompt."
SKILL = "memory-search"
SKILLS = ROOT / "prompts"


def files() -> dict[str, str]:
    """Return the content of every file by its path in this folder."""
    return {
        ".claude-plugin/marketplace.json": _json(_marketplace()),
        "claude-code/.claude-plugin/plugin.json": _json(_manifest()),
        "claude-code/.mcp.json": _json({"mcpServers": {NAME: {"command": NAME, "args": ["mcp"]}}}),
        "claude-code/hooks/hooks.json": _json(_hooks("claude-code")),
        **{f"claude-code/skills/{name}": text for name, text in _skill().items()},
        "codex/.codex-plugin/plugin.json": _json({**_manifest(), "hooks": "./hooks.json"}),
        "codex/hooks.json": _json(_hooks("codex")),
    }


def _manifest() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"name": NAME, "version": project["version"], "description": DESCRIPTION, "license": project["license"]}


def _marketplace() -> dict[str, Any]:
    plugin = {"name": NAME, "source": "./claude-code", "description": DESCRIPTION}
    return {"name": NAME, "owner": {"name": "the Meeseeks authors"}, "plugins": [plugin]}


def _hooks(host: str) -> dict[str, Any]:
    """Return the hooks that `meeseeks hosts install` writes, with the command on the host's `PATH`."""
    return {"description": DESCRIPTION, "hooks": wanted(HOSTS[host], HandlerKind(f"meeseeks-hook {host}"))}


def _skill() -> dict[str, str]:
    paths = sorted(path for path in (SKILLS / SKILL).rglob("*") if path.is_file())
    return {path.relative_to(SKILLS).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    folder = ROOT / "plugins"
    for stale in (folder / "claude-code", folder / "codex", folder / ".claude-plugin"):
        shutil.rmtree(stale, ignore_errors=True)
    for name, text in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
