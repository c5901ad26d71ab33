"""Requests run again and labelled, with the real commands on the real store."""

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import InjectionRequest, Outcome, Scope
from tests.support.command_line import CommandLine, command_line
from tests.support.stack import environment
from worker.domain.errors import OperationError, SettingsError
from worker.domain.memory import CandidateVerdict, Memory, MemoryScope, MemoryType
from worker.domain.receipt import ConsideredMemory, Receipt
from worker.receipts.case_models import LabelledCase, Labels
from worker.receipts.cases import add_to_file, added, case_of, labels_of
from worker.receipts.replay import compared, config_of, shown_then
from worker.receipts.replay_models import ReplayRequest
from worker.tuning.labelled_worlds import read_cases

HOLD, ELSE = "Cabin holds in berth lapse after 12 minutes", "Cabin holds in berth lapse when sailing begins"
QUESTION = "When do cabin holds in berth lapse?"


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    made = command_line(tmp_path)
    for name, text in (("hold", HOLD), ("crew", ELSE)):
        made.ok("remember", text, "--id", name)
    return made


def injected(cli: CommandLine, *options: str) -> dict[str, Any]:
    result: dict[str, Any] = cli.json("inject", QUESTION, "--session", "s1", *options)
    return result


def test_a_replay_of_the_same_brings_the_same(cli: CommandLine) -> None:
    result = injected(cli)
    found = cli.json("replay", result["receipt_id"])
    assert found["same"]
    assert found["before"]["chosen"] == found["after"]["chosen"] == [item["id"] for item in result["items"]]
    assert found["changed_memories"] == []
    assert found["before"]["outcome"] == found["after"]["outcome"] == "injected"
    assert "same memories" in cli.ok("replay", result["receipt_id"][:8]), "the beginning of an id is enough"
    assert cli.json("receipt", result["receipt_id"][:6])["id"] == result["receipt_id"]
    assert len(cli.json("receipt")["receipts"]) == 1, "a replay leaves no receipt"


def test_what_is_set_otherwise_shows(cli: CommandLine) -> None:
    receipt = injected(cli)["receipt_id"]
    found = cli.json("replay", receipt, "--set", "max_items=1")
    assert (found["same"], len(found["before"]["chosen"]), len(found["after"]["chosen"])) == (False, 2, 1)
    outcomes = {one["id"]: (one["before"], one["after"]) for one in found["outcomes"]}
    assert sorted(outcomes.values()) == [("chosen", "chosen"), ("chosen", "over_items")]
    shown = cli.ok("replay", receipt, "--set", "max_items=1")
    assert "different memories" in shown
    assert "over_items" in shown
    assert cli.json("replay", receipt, "--mode", "off")["after"]["outcome"] == "skipped"


def test_what_has_changed_since_is_told(cli: CommandLine) -> None:
    receipt = injected(cli)["receipt_id"]
    cli.ok("update", "hold", "Cabin holds in berth lapse after 20 minutes")
    cli.ok("forget", "crew")
    cli.ok("remember", "Cabin holds in berth lapse at night", "--id", "younger")
    found = cli.json("replay", receipt)
    changed = {one["id"]: (one["then"], one["now"]) for one in found["changed_memories"]}
    assert changed == {"hold": (1, 2), "crew": (1, None)}
    assert "younger" not in {one["id"] for one in found["outcomes"]}, "it did not exist at that time"
    shown = cli.ok("replay", receipt)
    assert "hold: version 1 then, 2 now" in shown
    assert "crew: version 1 then, deleted now" in shown


def test_many_are_replayed_with_a_summary(cli: CommandLine) -> None:
    for number in range(3):
        cli.json("inject", QUESTION, "--session", f"s{number}")
    cli.json("inject", "thanks!")
    found = cli.json("replay", "--all", "--outcome", "injected", "--set", "max_items=1")
    assert (found["replayed"], found["failed"], found["same"]) == (3, 0, 0)
    assert (found["with_memory_before"], found["with_memory_after"], found["memories_removed"]) == (3, 3, 3)
    assert len(cli.json("replay", "--all", "--session", "s1")["replays"]) == 1
    assert cli.json("replay", "--all", "--since", "2999-01-01")["replayed"] == 0
    assert "memories removed" in cli.ok("replay", "--all", "--set", "max_items=1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("nothing-like-that",), "there is no receipt"),
        ((), "give either a receipt id or --all"),
        (("RECEIPT", "--all"), "give either a receipt id or --all"),
        (("RECEIPT", "--set", "max_itemz=1"), "did you mean max_items"),
        (("RECEIPT", "--set", "max_items=0"), "max_items"),
        (("RECEIPT", "--prompt", "PROMPT"), "front matter"),
        (("RECEIPT", "--prompt", "/no/such/prompt.md"), "No such file"),
    ],
)
def test_what_cannot_be_is_said(cli: CommandLine, tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    (tmp_path / "prompt.md").write_text("no prompt at all", encoding="utf-8")
    names = {"RECEIPT": injected(cli)["receipt_id"], "PROMPT": str(tmp_path / "prompt.md")}
    told = cli.json("replay", *(names.get(option, option) for option in options), exit_code=1)
    assert words in told["error"]


def test_a_receipt_without_texts_explains_and_cannot_be_replayed_or_labelled(tmp_path: Path) -> None:
    (tmp_path / "meeseeks.toml").write_text('[memory_injection]\nreceipt_keep = "no_texts"\n', encoding="utf-8")
    cli = command_line(tmp_path, MEESEEKS_CONFIG=str(tmp_path / "meeseeks.toml"))
    cli.ok("remember", HOLD, "--id", "hold")
    receipt = injected(cli)["receipt_id"]
    kept = cli.json("receipt", receipt)
    assert (kept["considered"][0]["verdict"], kept["considered"][0]["text"]) == ("chosen", "")
    for refused in (("replay", receipt), ("label", receipt, "--accept")):
        assert "has no texts" in cli.json(*refused, exit_code=1)["error"]


def test_receipts_are_listed_by_what_came_of_them(cli: CommandLine) -> None:
    injected(cli)
    cli.json("inject", "thanks!", "--session", "other", "--agent", "planner")
    listed = cli.json("receipt", "--outcome", "injected")["receipts"]
    assert [one["session_id"] for one in listed] == ["s1"]
    assert [one["reason"] for one in cli.json("receipt", "--agent", "planner")["receipts"]] == ["acknowledgement"]
    assert len(cli.json("receipt", "--sound")["receipts"]) == 2
    assert cli.json("receipt", "--degraded")["receipts"] == []
    assert len(cli.json("receipt", "--reason", "acknowledgement")["receipts"]) == 1
    assert cli.json("receipt", "--engine", "llm")["receipts"] == []
    assert "unknown reason" in cli.run("receipt", "--reason", "bad_mood").output
    shown = cli.ok("receipt", listed[0]["id"])
    assert "chosen: injected" in shown
    table = cli.ok("receipt")
    assert "2 of 2" in table
    assert listed[0]["id"][:8] in table, "its beginning is enough for every command"
    assert "thanks!" in table
    assert table.index("thanks!") < table.index(listed[0]["message"][:20]), "the newest is first"
    assert json.loads(cli.ok("receipt", listed[0]["id"][:8], "--json"))["id"] == listed[0]["id"]


def test_a_receipt_becomes_a_case_that_eval_reads(cli: CommandLine, tmp_path: Path) -> None:
    file, receipt = tmp_path / "cases.jsonl", injected(cli)["receipt_id"]
    cli.ok("label", receipt, "--cases", str(file), "--essential", "hold", "--forbidden", "crew")
    world = read_cases(file)
    (task,) = world.tasks
    assert (task.essential, task.forbidden, task.request.message) == ({"hold"}, {"crew"}, QUESTION)
    assert sorted(memory.content for memory in world.memories) == sorted([HOLD, ELSE])
    (ran,) = cli.json("eval", "--cases", str(file))["runs"]
    assert (ran["task"], ran["essential"], ran["forbidden"]) == (f"receipt-{receipt}", ["hold"], ["crew"])
    cli.ok("label", receipt, "--cases", str(file), "--accept")
    (task,) = read_cases(file).tasks
    assert (task.essential, task.forbidden) == ({"hold", "crew"}, set())
    assert len(file.read_text(encoding="utf-8").splitlines()) == 3


def test_labels_that_make_no_sense_are_refused(cli: CommandLine, tmp_path: Path) -> None:
    file, receipt = tmp_path / "cases.jsonl", injected(cli)["receipt_id"]
    options = ("label", receipt, "--cases", str(file))
    assert "not considered" in cli.json(*options, "--essential", "hold,ghost", exit_code=1)["error"]
    assert "more than once" in cli.json(*options, "--useful", "hold", "--forbidden", "hold", exit_code=1)["error"]
    assert "use --essential" in cli.json(*options, exit_code=1)["error"]
    assert not file.exists()
    file.write_text("not JSON\n", encoding="utf-8")
    assert "line 1" in cli.json(*options, "--nothing", exit_code=1)["error"]
    assert file.read_text(encoding="utf-8") == "not JSON\n"


def considered(
    name: str, verdict: CandidateVerdict = CandidateVerdict.CHOSEN, text: str = HOLD, version: int = 1
) -> ConsideredMemory:
    return ConsideredMemory(id=name, type=MemoryType.FACT, text=text, version=version, score=0.5, verdict=verdict)


def receipt_with(*memories: ConsideredMemory, name: str = "r1") -> Receipt:
    request = InjectionRequest(session_id="s", message=QUESTION, scope=Scope(tenant="t1", user="u"), agent_id="dock")
    chosen = tuple(one.id for one in memories if one.verdict is CandidateVerdict.CHOSEN)
    plain = {"id": name, "at": "2026-01-01T00:00:00Z", "request": request, "outcome": Outcome.INJECTED}
    return Receipt.model_validate({**plain, "considered": memories, "chosen": chosen})


def test_a_case_holds_memories_as_they_were_for_all_that_may_see_them() -> None:
    receipt = receipt_with(considered("a"), considered("b"), considered("seen", CandidateVerdict.ALREADY_SHOWN))
    today = [
        Memory(id="a", content="edited since", version=2, scope=MemoryScope(user="team")),
        Memory(id="seen", content="x"),
    ]
    case = case_of(receipt, today, Labels(accept=True, useful=("b",)), ["team"])
    assert [(line["id"], line["content"]) for line in case.memories] == [("a", HOLD), ("b", HOLD)]
    assert not any(line.get("scope") for line in case.memories)
    assert (case.task["essential"], case.task["useful"]) == (["a"], ["b"])
    assert case.task["scope"] == {"user": "u", "agent": "dock", "project": None, "channel": None}
    with pytest.raises(OperationError, match="seen"):
        labels_of(receipt, Labels(essential=("seen",)))


def test_a_memory_deleted_since_is_not_part_of_a_case() -> None:
    gone = considered("gone", text="").model_copy(update={"deleted": True})
    receipt = receipt_with(considered("a"), gone)
    case = case_of(receipt, [], Labels(essential=("a",)))
    assert [line["id"] for line in case.memories] == ["a"]
    for labels in (Labels(accept=True), Labels(forbidden=("gone",))):
        with pytest.raises(OperationError, match=r"deleted since.*gone"):
            labels_of(receipt, labels)


def test_a_memory_that_was_not_considered_can_be_missing() -> None:
    receipt, today = receipt_with(considered("a")), [Memory(id="b", content="password: hunter22!")]
    case = case_of(receipt, today, Labels(missing=("b",)))
    assert case.task["essential"] == ["b"]
    assert [(line["id"], line["content"]) for line in case.memories] == [("a", HOLD), ("b", "password: [masked]")]
    assert case_of(receipt, [], Labels(missing=("a",))).task["essential"] == ["a"]
    with pytest.raises(OperationError, match="there is no memory 'c'"):
        case_of(receipt, today, Labels(missing=("c",)))
    seen = receipt_with(considered("seen", CandidateVerdict.ALREADY_SHOWN))
    with pytest.raises(OperationError, match="not considered for this request: seen"):
        case_of(seen, today, Labels(missing=("seen",)))


def test_another_text_of_a_known_memory_gets_an_id_of_its_own() -> None:
    first = case_of(receipt_with(considered("a"), name="r1"), [], Labels(accept=True))
    second = case_of(receipt_with(considered("a", text=ELSE, version=2), name="r2"), [], Labels(accept=True))
    lines = added(added([], first), second)
    entries = [json.loads(line) for line in lines]
    assert [entry["id"] for entry in entries] == ["a", "receipt-r1", "a@v2", "receipt-r2"]
    assert entries[3]["essential"] == ["a@v2"]
    assert added(lines, second) == lines
    with pytest.raises(SettingsError, match="line 1"):
        added(["[]"], first)


def test_cases_that_are_added_at_the_same_time_are_all_there(tmp_path: Path) -> None:
    cases: list[LabelledCase] = [
        case_of(receipt_with(considered(f"m{n}"), name=f"r{n}"), [], Labels(accept=True)) for n in range(12)
    ]
    threads = [threading.Thread(target=add_to_file, args=(tmp_path / "c.jsonl", case)) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_cases(tmp_path / "c.jsonl").tasks) == 12


def test_settings_of_a_replay() -> None:
    config, ignored = config_of({"max_items": 3, "gone": 1}, ReplayRequest(model="openai/x", deadline_ms=9000))
    assert (config.max_items, config.models, config.deadline_ms, ignored) == (3, ("openai/x",), 9000, ("gone",))
    with pytest.raises(SettingsError, match="max_items"):
        config_of({}, ReplayRequest(settings={"max_items": "many"}))


def test_two_receipts_side_by_side() -> None:
    before = receipt_with(considered("a"), considered("b"), considered("c", CandidateVerdict.ALREADY_SHOWN, version=4))
    after = receipt_with(considered("b"), considered("a", CandidateVerdict.NOT_SELECTED), considered("new"))
    found = compared(before, after, [Memory(id="a", content="x"), Memory(id="c", content="x", version=5)])
    outcomes = {one.id: (one.before, one.after, one.place_before, one.place_after) for one in found.outcomes}
    assert not found.same
    assert outcomes["a"] == (CandidateVerdict.CHOSEN, CandidateVerdict.NOT_SELECTED, 1, None)
    assert outcomes["b"] == (CandidateVerdict.CHOSEN, CandidateVerdict.CHOSEN, 2, 1)
    assert outcomes["c"] == (CandidateVerdict.ALREADY_SHOWN, None, None, None)
    assert outcomes["new"] == (None, CandidateVerdict.CHOSEN, None, 2)
    assert [(one.id, one.then, one.now) for one in found.changed_memories] == [("b", 1, None), ("c", 4, 5)]
    assert {key: entry.version for key, entry in shown_then(before).items()} == {"c": 4}


def test_at_a_terminal_it_asks_for_each_memory(cli: CommandLine, tmp_path: Path) -> None:
    file, receipt = tmp_path / "cases.jsonl", injected(cli)["receipt_id"]
    ours, theirs = pty.openpty()
    line = [
        sys.executable,
        "-m",
        "worker",
        "--data-dir",
        str(tmp_path / "data"),
        "label",
        receipt,
        "--cases",
        str(file),
    ]
    variables = environment(MEESEEKS_EMBEDDER="none", MEESEEKS_MODEL="none")
    os.write(ours, b"what?\nu\nf\n")
    done = subprocess.run(line, env=variables, stdin=theirs, capture_output=True, text=True, timeout=50, check=False)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert QUESTION in done.stdout
    (task,) = read_cases(file).tasks
    assert (len(task.essential), len(task.useful), len(task.forbidden)) == (0, 1, 1)
