"""Capture on labelled conversations: with a model that knows the labels, with one that says too much, and without."""

import json
import re
from collections.abc import AsyncIterator, Callable
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path

import pytest

from tests.support.command_line import command_line
from tests.support.scripted_model import ScriptedModel
from worker.capture.reading import CaptureReader
from worker.domain.model_calls import ChatRequest
from worker.triage.prompt_files import default_prompts_dir, load_prompts
from worker.tuning.capture_cases import (
    CaptureCase,
    CaptureRun,
    CaseKind,
    LabelledOperation,
    measures,
    read_capture_cases,
)
from worker.tuning.capture_noise import with_chatter
from worker.tuning.capture_runs import CaptureRunner, open_capture_runner

CASES = read_capture_cases(default_prompts_dir() / "cases" / "capture")
NUMBERED = re.compile(r'^\[(\d+)\] (user|assistant)?[^"]*"(.*)"$', re.MULTILINE)


def operations_for(case: CaptureCase, request: ChatRequest) -> str:
    """Answer with the case's labels, in the numbers of the request."""
    memories, turns = request.messages[-1]["content"].split("Turns (quoted data", 1)
    shown = [(int(number), text) for number, _, text in NUMBERED.findall(memories)]
    said = [(int(number), text) for number, role, text in NUMBERED.findall(turns) if role == "user"]
    found = [_operation(case, label, shown, said) for label in case.must]
    return json.dumps({"operations": [one for one in found if one["turns"]]})


def _operation(
    case: CaptureCase, label: LabelledOperation, shown: list[tuple[int, str]], said: list[tuple[int, str]]
) -> dict[str, object]:
    texts = {memory.id: memory.text for memory in case.memories}
    target = _like(texts[label.target], shown) if label.target else None
    turns = [_like(case.turns[turn].text, said) for turn in label.turns]
    words = case.turns[label.turns[-1]].text if label.date else None
    fields: dict[str, object] = {
        "op": label.op.value,
        "target": target,
        "about": "user",
        "type": "fact",
        "text": label.text,
        "cues": [],
    }
    return {**fields, "turns": [turn for turn in turns if turn], "when": words}


def _like(text: str, numbered: list[tuple[int, str]]) -> int | None:
    scored = [(SequenceMatcher(None, text[:200], other[:200]).ratio(), number) for number, other in numbered]
    best = max(scored, default=(0.0, None))
    return best[1] if best[0] > 0.3 else None


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[CaptureRunner]:
    async with open_capture_runner(tmp_path) as opened:
        yield opened


async def run_with(runner: CaptureRunner, case: CaptureCase, answer: Callable[[ChatRequest], str]) -> CaptureRun:
    reader = CaptureReader(ScriptedModel([answer]), load_prompts(default_prompts_dir())["capture"])
    return await CaptureRunner(runner.parts, runner.ledger, reader).run(case)


async def test_the_labels_as_an_answer_are_mostly_kept_or_dropped_but_hardly_ever_spoilt(runner: CaptureRunner) -> None:
    """The labels are in freer words than the checks allow, so many are dropped."""
    cases = CASES[::3]
    runs = [await run_with(runner, case, partial(operations_for, case)) for case in cases]
    done = measures(runs)
    assert done.precision.value > 0.9
    assert done.recall.value > 0.35
    assert done.near.value > 0.9
    assert (done.wrong_dates, done.leaks, done.duplicates, done.failed) == (0, 0, 0, 0)
    assert done.calls < done.user_turns
    assert done.tokens > 0


async def test_ten_times_the_chatter_leads_to_hardly_more_writes(runner: CaptureRunner) -> None:
    """Chatter changes which turns are read together and what explains them, and must not change what is kept."""
    writes = {1: 0, 10: 0}
    for case in CASES[::12]:
        for times in writes:
            noisy = with_chatter(case, CASES, times)
            noisy = noisy.model_copy(update={"id": f"{noisy.id}-{times}"})
            run = await run_with(runner, noisy, partial(operations_for, noisy))
            writes[times] += len(run.found)
    assert 0 < writes[10] <= 1.05 * writes[1]


async def test_a_model_that_makes_things_up_gets_nothing_stored(runner: CaptureRunner) -> None:
    def invented(request: ChatRequest) -> str:
        texts = ("The user has a cat called Zorblatt", "The user moved to Oslo in 2019", "The user likes opera")
        return json.dumps({"operations": [{"turns": [1], "op": "add", "text": text} for text in texts]})

    cases = [case for case in CASES if case.kind is CaseKind.NOTHING][::3]
    runs = [await run_with(runner, case, invented) for case in cases]
    asked = [run for run in runs if run.calls]
    assert asked
    assert not [run.found for run in asked if run.drops and run.found]
    assert sum(len(run.drops) for run in asked) >= 3 * len(asked)


async def test_an_answer_that_cannot_be_read_is_counted_as_a_failure(runner: CaptureRunner) -> None:
    case = next(case for case in CASES if case.kind is CaseKind.KEEP)
    run = await run_with(runner, case, lambda _: "I would rather not.")
    assert run.failed is not None
    assert measures([run]).failed == 1


def test_the_command_measures_without_a_model(tmp_path: Path) -> None:
    shell = command_line(tmp_path)
    done = shell.json("eval", "capture", "--model", "none", "--limit", "56")
    assert (done["model"], done["cases"], done["calls"]) == ("none", 56, 0)
    assert done["left_alone"]["value"] > 0.8
    assert 0.0 < done["recall"]["value"] < done["recall"]["high"] < 1.0
    shown = shell.ok("eval", "capture", "--model", "none", "--limit", "14", "--noise", "2")
    assert shown.count("conversations with nothing to keep that were left alone") == 2
    assert "with 2 times as much chatter" in shown
