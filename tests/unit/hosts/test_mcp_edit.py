"""The MCP server in the files of hosts: added and removed without a change of anything else."""

import json
import tomllib
from typing import Any

import pytest

from worker.domain.errors import SettingsError
from worker.hosts.mcp_edit import MCP_FILES
from worker.hosts.profile import Syntax

JSON, TOML = MCP_FILES[Syntax.JSON], MCP_FILES[Syntax.TOML]
ENTRY = {"command": "/opt/my tools/meeseeks", "args": ["--data-dir", 'a "b" \\c', "mcp"]}
OTHER = {**ENTRY, "args": ["mcp"]}

JSON_TEXTS = [
    "{}\n",
    '{"numStartups": 3}',
    '{\n\t"mcpServers": {\n\t\t"files": {"command": "files"}\n\t},\n\t"é": 1\n}\n',
]
TOML_TEXTS = [
    "",
    '# mine\nmodel = "gpt"\n\n[projects."/home/ada"]\ntrust_level = "trusted"  # yes\n',
    '[mcp_servers.files]\ncommand = "files"\n\n[tui]\ntheme = "dark"\n',
    'mcp_servers = { files = { command = "files" } }\n',
    '[mcp_servers.a]\ncommand = "a"\n[tui]\nx = 1\n[mcp_servers.b]\ncommand = "b"\n[mcp_servers.b.env]\nK = "v"\n',
]


def servers(text: str, *, is_json: bool) -> dict[str, Any]:
    document = json.loads(text) if is_json else tomllib.loads(text)
    found: dict[str, Any] = document["mcpServers" if is_json else "mcp_servers"]
    return found


@pytest.mark.parametrize("text", [*JSON_TEXTS, *TOML_TEXTS])
def test_it_is_added_replaced_and_removed(text: str) -> None:
    is_json = text in JSON_TEXTS
    file = JSON if is_json else TOML
    added = file.install(text, ENTRY, "f")
    assert servers(added, is_json=is_json)["meeseeks"] == ENTRY
    assert file.found(added, "f") == ENTRY
    assert file.install(added, ENTRY, "f") == added
    replaced = file.install(added, OTHER, "f")
    assert servers(replaced, is_json=is_json)["meeseeks"] == OTHER
    assert file.others(replaced, "f") == file.others(text, "f")
    removed = file.uninstall(replaced, "f")
    assert file.found(removed, "f") is None
    assert removed.split() == text.split()
    assert file.is_empty(removed) == file.is_empty(text)
    assert file.uninstall(text, "f") == text


def test_comments_and_order_are_kept() -> None:
    text = TOML_TEXTS[1]
    assert TOML.install(text, ENTRY, "f").startswith(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n"mcpServers": {,}}', "f:2: not valid JSON"),
        ('{"mcpServers": []}', "mcpServers must be a table"),
        ('{"mcpServers": {"meeseeks": {"command": "uvx"}}}', "mcpServers.meeseeks is another server"),
        ('{"mcpServers": {"meeseeks": 1}}', "mcpServers.meeseeks is another server"),
        ("a = 1\nb = [", "f:2: not valid TOML"),
        ("mcp_servers = 1", "mcp_servers must be a table"),
        ('[mcp_servers.meeseeks]\nurl = "https://x/other"', "mcp_servers.meeseeks is another server"),
    ],
)
def test_what_cannot_be_edited_is_refused(text: str, said: str) -> None:
    file = JSON if text.startswith("{") else TOML
    with pytest.raises(SettingsError, match=said):
        file.install(text, ENTRY, "f")


def test_entries_for_a_url_are_ours_too() -> None:
    text = JSON.install("{}", {"type": "http", "url": "http://127.0.0.1:8787/mcp"}, "f")
    assert JSON.uninstall(text, "f") == "{}"
