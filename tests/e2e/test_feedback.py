"""Answers reported through the queue, and what docs/receipts.md and docs/feedback.md give to copy."""

import ast
import asyncio
import json
import re
import shlex
import uuid
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from hooks import PostExecutionHook, PreExecutionHook, Reason
from hooks.contract.usage import AnswerReport, AnswerReportResult
from hooks.post_execution import SyncPostExecutionHook
from tests.support.command_line import command_line
from tests.support.load import Stopwatch
from tests.support.paths import ROOT
from tests.support.stack import DEPLOYMENT, MIGRATION, ModelServer, Stack, ask, put, running_stack
from worker.triage.prompt_files import default_prompts_dir
from worker.tuning.labelled_worlds import read_cases

DOCS = ROOT / "docs"
USED = "Write it with Alembic, never by hand; it goes out on Tuesday after the stand-up."


async def reported(hook: PostExecutionHook, **fields: Any) -> AnswerReportResult:
    """A report; told again where busy cores kept the worker from taking it up, or the receipt was not written yet."""
    report = AnswerReport.model_validate({"tenant": "acme", "answer": USED, "deadline_ms": 5000, **fields})
    for _ in range(20):
        told = await hook(report)
        if told.reason not in (Reason.NO_ACK, Reason.NOT_FOUND):
            return told
    return told


async def test_an_answer_is_reported_and_counted(service: Stack, hook: PreExecutionHook, model: ModelServer) -> None:
    session, turn = uuid.uuid4().hex, uuid.uuid4().hex
    answered = await ask(hook, DEPLOYMENT, session_id=session, turn_id=turn, mode="deterministic")
    assert answered.ids == ["tuesday"]
    async with PostExecutionHook(service.url) as after:
        told = await reported(after, session_id=session, turn_id=turn)
        again = await reported(after, session_id=session, turn_id=turn, answer="I do not know")
    assert (told.done, told.injected, told.used, told.counted) == (True, ("tuesday",), ("tuesday",), True)
    assert (again.used, again.counted) == ((), False)
    counted = await service.said_here("usage", "--tenant", "acme")
    (row,) = [one for one in counted["memories"] if one["id"] == "tuesday"]
    assert (row["injected"], row["used"]) == (1, 1)
    shown = await service.command_here("show", "tuesday", "--tenant", "acme")
    assert "in 1 of 1 answers that received it" in shown.stdout
    assert "Alembic" not in service.log


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        ({"session_id": "s", "turn_id": "t", "answer": "x"}, Reason.NOT_FOUND),
        ({"session_id": "s", "answer": "x"}, Reason.BAD_REQUEST),
        ({}, Reason.BAD_REQUEST),
        (7, Reason.BAD_REQUEST),
    ],
)
async def test_what_cannot_be_counted_says_why_and_never_raises(service: Stack, report: Any, reason: Reason) -> None:
    async with PostExecutionHook(service.url) as after:
        for _ in range(20):
            told = await after(report)
            if told.reason is not Reason.NO_ACK:
                break
    assert (told.done, told.reason) == (False, reason)


async def test_without_redis_a_report_is_lost_in_time() -> None:
    watch = Stopwatch()
    async with PostExecutionHook("unix:///no/such/socket") as lost:
        told = await lost(session_id="s", turn_id="t", answer="x", deadline_ms=300)
    assert (told.done, told.reason) == (False, Reason.QUEUE_UNAVAILABLE)
    assert watch.seconds < 1.0


def test_plain_threads_report_too(service: Stack) -> None:
    with SyncPostExecutionHook(service.url) as after, SyncPostExecutionHook("unix:///no/such/socket") as lost:
        for _ in range(20):
            told = after(session_id="s", turn_id="never", answer="x")
            if told.reason is not Reason.NO_ACK:
                break
        assert (told.done, told.reason) == (False, Reason.NOT_FOUND)
        assert after(7).reason is Reason.BAD_REQUEST
        assert lost({"session_id": "s", "turn_id": "t", "answer": "x"}).reason is Reason.QUEUE_UNAVAILABLE


async def test_a_frozen_worker_does_not_hold_a_report_up(tmp_path: Path) -> None:
    with running_stack(tmp_path, "up", MEESEEKS_MODEL="none", MEESEEKS_EMBEDDER="none") as stack:
        async with PostExecutionHook(stack.url) as after:
            with stack.frozen():
                watch = Stopwatch()
                told = await after(session_id="s", turn_id="t", answer="x", deadline_ms=400)
                seconds = watch.seconds
    assert told.reason in (Reason.NO_ACK, Reason.NO_WORKER, Reason.DEADLINE)
    assert seconds < 0.4 + 0.2


async def test_what_is_forgotten_has_no_counts(tmp_path: Path) -> None:
    with running_stack(tmp_path, "up", MEESEEKS_MODEL="none", MEESEEKS_EMBEDDER="none") as stack:
        await put(
            stack.url, [{"id": "gate", "content": "The gate's code is 3380", "created_at": "2026-01-10T09:00:00Z"}]
        )
        async with PreExecutionHook(stack.url) as before, PostExecutionHook(stack.url) as after:
            answered = await ask(before, "What is the code of the gate?", session_id="s", turn_id="t")
            told = await reported(after, session_id="s", turn_id="t", answer="3380")
        assert list(told.used) == answered.ids == ["gate"]
        assert (await stack.said_here("usage", "--tenant", "acme"))["counted"] == 1
        await stack.said_here("forget", "gate", "--tenant", "acme")
        assert (await stack.said_here("usage", "--tenant", "acme"))["counted"] == 0


async def test_a_replay_asks_the_model_and_takes_another_prompt(
    service: Stack, hook: PreExecutionHook, model: ModelServer, tmp_path: Path
) -> None:
    model.behave(keep=["Alembic"])
    receipt = (await ask(hook, MIGRATION, deadline_ms=3000)).result.receipt_id
    assert receipt is not None
    prompt = tmp_path / "triage.md"
    text = (default_prompts_dir() / "triage.md").read_text(encoding="utf-8")
    prompt.write_text(re.sub(r"(?m)^version: \d+$", "version: 99", text), encoding="utf-8")
    options = ("--tenant", "acme")
    before = len(model.chats())
    found = await service.said_here("replay", receipt, "--prompt", str(prompt), *options)
    assert (found["same"], found["after"]["engine"], found["after"]["prompt"]) == (True, "llm", "triage@99"), found
    assert len(model.chats()) > before
    assert (await service.said_here("replay", receipt, "--model", "none", *options))["after"]["model"] is None
    model.behave(keep=[])
    done = await service.command_here("replay", receipt, *options, "--json")
    other = json.loads(done.stdout)
    assert (other["same"], other["before"]["chosen"], other["after"]["chosen"]) == (False, ["alembic"], [])


async def test_a_replay_knows_what_the_session_had_been_shown_then(service: Stack, hook: PreExecutionHook) -> None:
    for _ in range(3):  # a request goes on without the ledger where that has no time
        session = {"session_id": uuid.uuid4().hex, "mode": "deterministic"}
        first, second = await ask(hook, MIGRATION, **session), await ask(hook, MIGRATION, **session)
        if second.result.outcome == "all_duplicate":
            break
    assert (first.result.outcome, second.result.outcome) == ("injected", "all_duplicate")
    for answered in (first, second):
        receipt = answered.result.receipt_id
        assert receipt is not None
        found = await service.said_here("replay", receipt, "--tenant", "acme")
        assert found["same"]
        assert found["before"]["outcome"] == found["after"]["outcome"] == answered.result.outcome
    shown = await service.said_here("session", "show", session["session_id"], "--tenant", "acme")
    assert [(agent["turn"], len(agent["shown"])) for agent in shown["agents"]] == [(2, 1)], (
        "replays leave the ledger alone"
    )


def commands(page: str) -> list[list[str]]:
    """Every command of a page's plain blocks."""
    text = (DOCS / page).read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"(?ms)^```\n(.*?)^```", text) for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("meeseeks ")]


async def test_the_documentation_can_be_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shell = command_line(tmp_path)
    with running_stack(
        tmp_path, "up", MEESEEKS_MODEL="none", MEESEEKS_EMBEDDER="none", MEESEEKS_HTTP_ENABLED="0"
    ) as stack:
        text = "Deployments to production happen on Tuesdays after the stand-up"
        assert (await stack.command_here("remember", text, "--id", "deploy")).exit_code == 0
        names = await run_example(stack)
        told: AnswerReportResult = names["told"]
        assert (told.injected, told.used) == (("deploy",), ("deploy",))
        receipt = names["result"].receipt_id
        await stack.said_here("remember", "The harbour opens at six", "--id", "m9")
        (tmp_path / "my-triage.md").write_bytes((default_prompts_dir() / "triage.md").read_bytes())
        asks = ["eval", "label", "ID"]
        for words in [*commands("receipts.md"), *commands("feedback.md")]:
            if words == asks or "calibrate" in words:
                continue  # the one asks a person at a terminal, the other measures an embedder, which is not here
            known = {"ID": receipt, "m1,m2": "deploy", "m7": "", "ollama_chat/qwen3:4b": "none"}
            await asyncio.to_thread(shell.ok, *(known.get(word, word) for word in words))
        (task,) = read_cases(tmp_path / "cases.jsonl").tasks
        assert task.essential == frozenset()


async def run_example(stack: Stack) -> dict[str, Any]:
    """The Python example of docs/feedback.md, against this service."""
    (example,) = re.findall(r"(?ms)^```python\n(.*?)^```", (DOCS / "feedback.md").read_text(encoding="utf-8"))
    example = example.replace(
        "PreExecutionHook(), PostExecutionHook()", "PreExecutionHook(URL), PostExecutionHook(URL)"
    )
    code: CodeType = compile(example, "feedback.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for _ in range(20):
        names: dict[str, Any] = {"URL": stack.url, "print": lambda *_: None}
        await eval(code, names)
        await names["before"].aclose()
        await names["after"].aclose()
        if names["told"].done and names["result"].memory_context:
            return names
    raise AssertionError(names["told"])


def test_the_case_format_of_the_documentation_is_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"(?ms)^```json\n(.*?)^```", (DOCS / "receipts.md").read_text(encoding="utf-8"))
    (tmp_path / "cases.jsonl").write_text(example, encoding="utf-8")
    world = read_cases(tmp_path / "cases.jsonl")
    assert ([task.essential for task in world.tasks], [memory.id for memory in world.memories]) == ([{"m1"}], ["m1"])
