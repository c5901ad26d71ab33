"""What the demo says of a task: what decided, how long it took, and what would have been right."""

from typing import Any

import pytest

from hooks.contract import Engine, InjectedItem, InjectionResult, Outcome, Reason
from tests.support.paths import ROOT
from worker.cli import demo
from worker.tuning.labelled_worlds import read_world

WORLD = read_world(ROOT / "prompts/cases/backend-team")
TEXTS = {memory.id: memory.content for memory in WORLD.memories}
NEEDED = next(task for task in WORLD.tasks if task.essential)
UNRELATED = next(task for task in WORLD.tasks if not task.essential and not task.useful)


def printed(task: Any, ids: tuple[str, ...], capsys: pytest.CaptureFixture[str], engine: Engine) -> list[str]:
    items = tuple(InjectedItem(id=key, type="fact", text=TEXTS[key]) for key in ids)
    outcome = Outcome.INJECTED if items else Outcome.NONE_RELEVANT
    result = InjectionResult.nothing(outcome, None if items else Reason.NOTHING_SELECTED)
    result = result.model_copy(update={"items": items, "engine": engine, "memory_context": "block" if items else None})
    demo._print(demo.DemoAnswer("backend-team", task, result, 4.2, TEXTS))
    return capsys.readouterr().out.splitlines()


def test_a_right_answer_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(NEEDED, tuple(sorted(NEEDED.essential)), capsys, Engine.RELEVANCE_MODEL)
    assert lines[-1] == "decided by the relevance model in 4 ms: right"


def test_a_wrong_answer_says_what_would_have_been_right(capsys: pytest.CaptureFixture[str]) -> None:
    *_, decided, expected = printed(NEEDED, (), capsys, Engine.DETERMINISTIC)
    assert decided == "decided by search scores in 4 ms: wrong"
    assert expected == "expected " + " and ".join(demo._short(TEXTS[key]) for key in sorted(NEEDED.essential))


def test_where_nothing_matters_nothing_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(UNRELATED, (), capsys, Engine.NONE)[-1] == "decided by nothing in 4 ms: right"
    wrong = printed(UNRELATED, tuple(TEXTS)[:1], capsys, Engine.RELEVANCE_MODEL)
    assert wrong[-1] == "expected nothing: no memory matters for this message"
