"""Hooks in a host's settings file: put in and taken out, and everything else left as it is, byte for byte."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.domain.errors import SettingsError
from worker.hosts import HOSTS
from worker.hosts.json_edit import add, find, parts, remove
from worker.hosts.settings_edit import EMPTY, HandlerKind, found, install, is_ours, same_but_for_ours, uninstall, wanted

CLAUDE, CODEX = HOSTS["claude-code"], HOSTS["codex"]
COMMAND = HandlerKind("meeseeks-hook claude-code")
HTTP = HandlerKind("meeseeks-hook claude-code", "http://127.0.0.1:8787/v1/hooks/claude-code")

THEIRS = """\
{
    "model": "opus",  "permissions": { "allow": ["Bash(ls:*)", "Read"], "deny": [] },
    "hooks": {
        "UserPromptSubmit": [
            { "hooks": [ {"type": "command", "command": "echo caf\\u00e9 é", "timeout": 9} ] }
        ],
        "Stop": [{"hooks": []}]
    },
    "env": {"A": "1e400", "B": "\\ud83d\\ude00"}, "cost": 1.50
}
"""

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
HANDLERS = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=9)})
GROUPS = st.fixed_dictionaries({"hooks": st.lists(HANDLERS, max_size=2)}, optional={"matcher": st.text(max_size=4)})
HOOKS = st.dictionaries(st.sampled_from(["UserPromptSubmit", "Stop", "SessionStart", ""]), st.lists(GROUPS, max_size=2))
OTHERS = st.dictionaries(st.text(max_size=6).filter(lambda key: key != "hooks"), VALUES, max_size=4)
LAYOUTS = st.sampled_from([None, 1, 2, 4, "\t", "crlf"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A settings file as somebody may have written it."""
    content = draw(OTHERS)
    if draw(st.booleans()):
        content = {**content, "hooks": draw(HOOKS)}
    layout, ascii_only = draw(LAYOUTS), draw(st.booleans())
    indent = 2 if layout == "crlf" else layout
    text = json.dumps(content, indent=indent, ensure_ascii=ascii_only)
    text = text.replace("\n", "\r\n") if layout == "crlf" else text
    return draw(st.sampled_from(["", "\n", " "])) + text + draw(st.sampled_from(["", "\n", "\n\n"]))


def loads(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    return document


def without_empty_hooks(document: dict[str, Any]) -> dict[str, Any]:
    hooks = {event: groups for event, groups in document.get("hooks", {}).items() if groups}
    rest = {key: value for key, value in document.items() if key != "hooks"}
    return {**rest, "hooks": hooks} if hooks else rest


@given(documents(), st.sampled_from([COMMAND, HTTP]))
def test_everything_that_was_there_is_there(text: str, way: HandlerKind) -> None:
    done = install(text, CLAUDE, way, "f")
    before, after = loads(text), loads(done)
    assert {key: value for key, value in after.items() if key != "hooks"} == {
        key: value for key, value in before.items() if key != "hooks"
    }
    assert list(after)[: len(before)] == list(before)
    for event, groups in after["hooks"].items():
        old = before.get("hooks", {}).get(event, [])
        assert groups == [*old, *wanted(CLAUDE, way).get(event, [])]


@given(documents(), st.sampled_from([COMMAND, HTTP]))
def test_installing_twice_is_installing_once(text: str, way: HandlerKind) -> None:
    done = install(text, CLAUDE, way, "f")
    assert install(done, CLAUDE, way, "f") == done


@given(documents(), st.sampled_from([COMMAND, HTTP]))
def test_what_goes_in_comes_out_again(text: str, way: HandlerKind) -> None:
    back = uninstall(install(text, CLAUDE, way, "f"), CLAUDE, "f")
    assert without_empty_hooks(loads(back)) == without_empty_hooks(loads(text))
    assert same_but_for_ours(install(text, CLAUDE, way, "f"), text, CLAUDE, "f")
    if without_empty_hooks(loads(text)) == loads(text) and loads(text):
        assert back == text


@given(documents())
def test_the_other_way_takes_the_place_of_the_one(text: str) -> None:
    over = install(install(text, CLAUDE, COMMAND, "f"), CLAUDE, HTTP, "f")
    assert [one.handler["type"] for one in found(over, CLAUDE, "f")].count("http") == 5
    assert without_empty_hooks(loads(over)) == without_empty_hooks(loads(install(text, CLAUDE, HTTP, "f")))


def test_bytes_that_are_not_ours_stay() -> None:
    done = install(THEIRS, CLAUDE, COMMAND, "f")
    assert uninstall(done, CLAUDE, "f") == THEIRS
    kept = done
    for line in THEIRS.splitlines():
        assert line.rstrip(",") in kept, line
        kept = kept[kept.index(line.rstrip(",")) :]
    assert '\n        "SubagentStart": [\n            {\n                "hooks": [\n' in done


def test_a_file_that_is_not_there_becomes_one() -> None:
    done = install(EMPTY, CODEX, HandlerKind("meeseeks-hook codex"), "f")
    assert list(loads(done)) == ["hooks"], "Codex takes no other key at the top but description"
    assert set(loads(done)["hooks"]) == {event.name for event in CODEX.events}
    assert done.endswith("}\n")
    assert uninstall(done, CODEX, "f") == EMPTY


def test_a_handler_of_ours_beside_others_is_taken_out_alone() -> None:
    group = {
        "hooks": [{"type": "command", "command": "a"}, {"type": "command", "command": "meeseeks-hook claude-code"}]
    }
    text = json.dumps({"hooks": {"Stop": [group], "UserPromptSubmit": [group]}})
    back = loads(uninstall(text, CLAUDE, "f"))
    assert back == {"hooks": {event: [{"hooks": group["hooks"][:1]}] for event in ("Stop", "UserPromptSubmit")}}


@pytest.mark.parametrize(
    ("handler", "ours"),
    [
        ({"command": "meeseeks-hook claude-code"}, True),
        ({"command": "A=1 '/home/a b/bin/meeseeks-hook' claude-code"}, True),
        ({"command": "C:\\bin\\meeseeks-hook.exe claude-code"}, True),
        ({"command": "meeseeks-hook claude-code-next"}, False),
        ({"command": "meeseeks-hook codex"}, False),
        ({"command": "meeseeks-hook"}, False),
        ({"command": ["meeseeks-hook claude-code"]}, False),
        ({"type": "http", "url": "http://h:1/v1/hooks/claude-code?deadline_ms=5"}, True),
        ({"type": "http", "url": "http://h:1/v1/hooks/claude-code/other"}, False),
        ({"url": 7}, False),
        ("meeseeks-hook claude-code", False),
        (None, False),
    ],
)
def test_ours_is_known_by_what_it_runs(handler: object, ours: bool) -> None:
    assert is_ours(handler, CLAUDE) is ours


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "f:1: not valid JSON; fix that first, the file was not changed"),
        ('{\n  "a": 1,\n}', r"f:3: not valid JSON|f:2: not valid JSON"),
        ("// no\n{}", "f:1: not valid JSON"),
        ("[]", "f: must be a JSON object"),
        ('{"hooks": []}', "f: hooks must be an object"),
        ('{"hooks": {"Stop": {}}}', "f: hooks.Stop must be a list"),
        ('{"hooks": {}, "hooks": {}}', "f: duplicate key 'hooks'"),
        ('{"a": ' + "[" * 100_000, "f: nested too deeply|f:1: not valid JSON"),
    ],
)
def test_a_file_that_its_host_would_not_read_is_refused(text: str, said: str) -> None:
    for change in (lambda: install(text, CLAUDE, COMMAND, "f"), lambda: uninstall(text, CLAUDE, "f")):
        with pytest.raises(SettingsError, match=said):
            change()


@pytest.mark.parametrize(("deadline_ms", "timeout_s"), [(200, 2), (2000, 3), (2800, 4), (3000, 4), (3001, 5)])
def test_the_host_waits_a_second_longer_than_the_hook_may_take(deadline_ms: int, timeout_s: int) -> None:
    assert HandlerKind("x", None, deadline_ms).timeout_s == timeout_s


def test_over_http_goes_what_the_host_can_send_over_http() -> None:
    kinds = {event: group["hooks"][0]["type"] for event, [group] in wanted(CLAUDE, HTTP).items()}
    assert kinds.pop("SessionStart") == "command"
    assert set(kinds.values()) == {"http"}
    handler = wanted(CLAUDE, HTTP)["UserPromptSubmit"][0]["hooks"][0]
    (variable,) = re.findall(r"\$(\w+)", handler["headers"]["Authorization"])
    assert handler["allowedEnvVars"] == [variable]


@given(st.dictionaries(st.text(max_size=4), VALUES, min_size=1, max_size=4), LAYOUTS, st.data())
def test_parts_are_added_and_removed_one_by_one(document: dict[str, Any], layout: Any, data: st.DataObject) -> None:
    text = json.dumps(document, indent=None if layout == "crlf" else layout)
    added = add(text, (), {"x": [1, {}]}, 'new key \u00e9"')
    assert json.loads(added) == {**document, 'new key \u00e9"': {"x": [1, {}]}}
    whole = find(text, ())
    assert whole is not None
    victim = data.draw(st.sampled_from(list(parts(text, whole.start))))
    left = json.loads(remove(text, (), victim))
    assert left == {key: value for key, value in document.items() if key != victim.key}
