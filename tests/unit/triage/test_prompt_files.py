import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.domain.errors import PromptError
from worker.triage.answer_parsing import Choice, parse_choice
from worker.triage.prompt_files import (
    clip_middle,
    default_prompts_dir,
    estimate_tokens,
    load_prompt,
    load_prompts,
    neutralise,
    parse_prompt,
    quote,
    whole_prompt,
)

GOOD = """---
id: demo
version: 2
max_tokens: 50
variables: [task]
---
# System
Rules.
# Example: user
one
# Example: assistant
two
# User
Do {{task}} or {{ task }}.
# Repair
Again.
"""


def test_reads_a_prompt_file() -> None:
    prompt = parse_prompt(GOOD, "demo.md")
    assert (prompt.name, prompt.max_tokens, prompt.temperature) == ("demo@2", 50, 0.0)
    assert [m["role"] for m in prompt.prefix()] == ["system", "user", "assistant"]
    assert prompt.section("repair") == "Again."


def test_values_are_never_expanded_again() -> None:
    prompt = parse_prompt(GOOD, "demo.md")
    assert prompt.fill(prompt.user, {"task": "{{task}}"}) == "Do {{task}} or {{task}}."


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("---\nid", "id", "must start with front matter"),
        ("version: 2", "version: two", "version: must be a whole number"),
        ("version: 2", "", "version: is required"),
        ("id: demo", "id: Demo Prompt", "id: must match"),
        ("max_tokens: 50", "max_token: 50", "max_token: unknown key"),
        ("id: demo", "id: [", "the front matter is not YAML"),
        ("id: demo", "id: 2001-99-99", "the front matter is not YAML"),
        ("id: demo", "id: !!bool x", "the front matter is not YAML"),
        ("id: demo", "id: !!int x", "the front matter is not YAML"),
        ("id: demo", "id: !!timestamp x", "the front matter is not YAML"),
        ("id: demo", f"id: {'[' * 5000}", "the front matter is not YAML"),
        ("variables: [task]", "variables: [task, spare]", "the variable 'spare' is declared but not used"),
        ("Do {{task}}", "Do {{tusk}}", "the variable 'tusk' is used but not declared"),
        ("Rules.", "Rules {{task}}.", "'# System' must not use variables"),
        ("# User", "# Users", "needs the sections"),
        ("# Example: assistant\ntwo\n", "", "examples must come in pairs"),
        ("# Repair", "# User", "the section '# User' appears twice"),
        ("# System", "hello\n# System", "text before the first heading"),
    ],
)
def test_a_fault_is_named_with_its_file(old: str, new: str, fault: str) -> None:
    assert old in GOOD
    with pytest.raises(PromptError, match=r"^demo\.md: ") as caught:
        parse_prompt(GOOD.replace(old, new, 1), "demo.md")
    assert fault in str(caught.value)


def test_a_folder_is_loaded_by_id(tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text(GOOD)
    (tmp_path / "README.md").write_text("not a prompt")
    assert list(load_prompts(tmp_path)) == ["demo"]
    (tmp_path / "two.md").write_text(GOOD)
    with pytest.raises(PromptError, match=r"two\.md: another file has the id 'demo'"):
        load_prompts(tmp_path)


def test_a_missing_or_unreadable_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="no folder of prompts"):
        load_prompts(tmp_path / "none")
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe")
    with pytest.raises(PromptError, match=r"cannot read .*bad\.md"):
        load_prompts(tmp_path)


def test_the_shipped_triage_prompt_loads_and_its_examples_are_in_the_form_that_is_asked_for() -> None:
    prompt = load_prompts(default_prompts_dir())["triage"]
    frame = re.compile(
        r'Now: .+\n(Earlier \(\w+\): ".*"\n)*(Description: ".*"\n)?Message: ".*"\nCandidates .*:\n'
        r'(\[\d+\] \d{4}-\d\d-\d\d (\(no longer holds\) )?".*"\n?)+'
    )
    choices = []
    for user, answer in prompt.examples:
        assert frame.fullmatch(user)
        choice = parse_choice(answer, user.count("\n["))
        assert isinstance(choice, Choice)
        choices.append(choice)
        sufficient = json.dumps(choice.sufficient)
        assert answer == f'{{"relevant":{list(choice.ids)},"sufficient":{sufficient}}}'.replace(", ", ",")
    shown = {(bool(choice.ids), choice.sufficient) for choice in choices}
    assert shown == {(True, True), (False, True), (True, False), (False, False)}
    assert "not instructions" in prompt.user


HOSTILE = [
    "<|im_end|>",
    "</s>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "\u2028",
    "\u200b",
    "\u202e",
    "\x1b[2J",
    "\r\n",
    '[3] "x"',
    "＜｜im_end｜＞",
    "〈ѕуѕtеm〉",
    "‹/s›",
    "［INST］【3】⟦x⟧",
    "｀｀｀",
    "\u034f\ufe0f\u3164\u180e",
]


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(st.characters())), max_size=8).map("".join))
def test_neutralised_text_is_one_line_without_markup(text: str) -> None:
    line = neutralise(text)
    assert len(line.splitlines()) <= 1
    assert not set(line) & set("<>[]`＜＞〈〉［］【】⟦⟧｀\x00\x1b\u200b\u202e\u2028\u034f\ufe0f\u3164\u180e")
    line.encode("utf-8")
    assert neutralise(line) == line


def test_neutralising_keeps_ordinary_text() -> None:
    assert neutralise("Łódź → 東京, 5 °C; don't! 🎉") == "Łódź → 東京, 5 °C; don't! 🎉"
    assert quote('say "hi"') == '"say \\"hi\\""'


def test_clipping_keeps_both_ends() -> None:
    clipped = clip_middle("a" * 100 + "b" * 100, 50)
    assert len(clipped) == 50
    assert clipped.startswith("aaa")
    assert clipped.endswith("bbb")
    assert clip_middle("short", 50) == "short"


def test_dense_scripts_cost_more_tokens() -> None:
    assert estimate_tokens("a" * 35) == 10
    assert estimate_tokens("東" * 10) == 15


PARTIAL = """---
id: terse
version: 3
extends: demo
max_tokens: 12
---
# User
Only {{task}}.
"""


def test_a_prompt_takes_from_another_what_it_does_not_say(tmp_path: Path) -> None:
    (tmp_path / "demo.md").write_text(GOOD)
    (tmp_path / "terse.md").write_text(PARTIAL)
    prompts = load_prompts(tmp_path)
    base, partial = prompts["demo"], prompts["terse"]
    assert (partial.name, partial.user, partial.max_tokens) == ("terse@3", "Only {{task}}.", 12)
    assert partial.prefix() == base.prefix()
    assert (partial.sections, partial.temperature) == (base.sections, base.temperature)


def test_what_is_extended_may_be_the_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.md"
    path.write_text(PARTIAL.replace("extends: demo", "extends: triage").replace("task", "now"))
    shipped = load_prompts(default_prompts_dir())["triage"]
    mine = load_prompt(path)
    assert (mine.system, mine.examples, mine.sections) == (shipped.system, shipped.examples, shipped.sections)
    assert mine.user == "Only {{now}}."


def test_a_partial_prompt_can_be_written_out_as_a_whole_one(tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "demo.md").write_text(GOOD)
    (tmp_path / "terse.md").write_text(PARTIAL)
    partial, whole = whole_prompt(tmp_path / "terse.md", tmp_path / "beside")
    assert parse_prompt(whole, "whole") == partial
    assert whole_prompt(tmp_path / "beside" / "demo.md")[1] == GOOD


def test_what_a_draft_extends_is_no_other_draft(tmp_path: Path) -> None:
    """Unless it has the name of what is extended, or nothing else by that id is there."""
    shipped = (default_prompts_dir() / "triage.md").read_text()
    (tmp_path / "draft.md").write_text(shipped.replace("Rules:", "Draft rules:"))
    (tmp_path / "mine.md").write_text("---\nid: mine\nversion: 1\nextends: triage\n---\n# Search\nLook again.\n")
    (tmp_path / "used").mkdir()
    found = [whole_prompt(tmp_path / "mine.md")[0].system]
    (tmp_path / "used" / "any.md").write_text(shipped.replace("Rules:", "Used rules:"))
    found.append(whole_prompt(tmp_path / "mine.md", tmp_path / "used")[0].system)
    (tmp_path / "triage.md").write_text(shipped.replace("Rules:", "Other rules:"))
    found.append(whole_prompt(tmp_path / "mine.md", tmp_path / "used")[0].system)
    assert [re.findall(r"\w* ?[Rr]ules:", text) for text in found] == [["Rules:"], ["Used rules:"], ["Other rules:"]]


def test_a_prompt_that_extends_its_own_id_means_the_shipped_one(tmp_path: Path) -> None:
    """Beside it there can be none in use, since it would take that one's place."""
    shipped = (default_prompts_dir() / "triage.md").read_text()
    (tmp_path / "triage.md").write_text(shipped.replace("Rules:", "Other rules:"))
    (tmp_path / "draft.md").write_text("---\nid: triage\nversion: 2\nextends: triage\n---\n# Search\nLook again.\n")
    draft, whole = whole_prompt(tmp_path / "draft.md", tmp_path)
    assert "Other rules:" not in draft.system
    assert draft.sections["search"] == "Look again."
    assert parse_prompt(whole, "whole") == draft


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("extends: demo", "extends: nobody", "no prompt with that id exists"),
        ("extends: demo", "extends: terse", "or it extends another one"),
        ("Only {{task}}.", "Only {{nothing}}.", "'nothing' is used but not declared"),
        ("Only {{task}}.", "", "the section '# User' is empty"),
        ("# User", "# System", "must not use variables"),
    ],
)
def test_what_is_wrong_with_a_partial_prompt_is_said(tmp_path: Path, old: str, new: str, fault: str) -> None:
    (tmp_path / "demo.md").write_text(GOOD)
    (tmp_path / "terse.md").write_text(PARTIAL.replace(old, new, 1))
    with pytest.raises(PromptError, match=fault) as raised:
        load_prompts(tmp_path)
    assert str(raised.value).startswith(str(tmp_path / "terse.md"))
