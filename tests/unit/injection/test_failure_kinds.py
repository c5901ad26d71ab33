"""Invalid model answers seen in practice, and how each is handled."""

import pytest

from hooks.contract import Engine, Reason
from tests.support.scripted_model import Say, ScriptedModel
from tests.support.triage import Memories, ids, many, selector, task
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.memory import Recalled
from worker.settings.injection import InjectionConfig

OFFERED = 8

FAILURES = {
    "prose": (Say("The candidates about the organ seem relevant."), Reason.MODEL_UNPARSEABLE, 2),
    "nothing at all": (Say(""), Reason.MODEL_UNPARSEABLE, 2),
    "white space until the limit": (
        Say('{\n"relevant":\t\t\t' + "\n" * 60, finish_reason="length"),
        Reason.MODEL_TRUNCATED,
        1,
    ),
    "cut off inside the list": (Say('{"relevant":[', finish_reason="length"), Reason.MODEL_TRUNCATED, 1),
    "cut off while thinking": (Say("<think>Let me look at each", finish_reason="length"), Reason.MODEL_TRUNCATED, 1),
    "numbers that were not offered": (Say('{"relevant":[41,42]}'), Reason.MODEL_UNPARSEABLE, 2),
    "a refusal": (Say("I'm sorry, but I cannot help with that."), Reason.MODEL_REFUSED, 1),
    "searching for ever": (Say('recall(query="organ")'), Reason.MODEL_UNPARSEABLE, 3),
    "a tool that is not there": (Say('{"name":"send_mail","arguments":{"to":"x"}}'), Reason.MODEL_UNPARSEABLE, 2),
    "JSON about something else": (Say('{"score":0.7}'), Reason.MODEL_UNPARSEABLE, 2),
    "a number instead of a list": (Say("0.7"), Reason.MODEL_UNPARSEABLE, 2),
    "an error of the server": (Say(error=Reason.MODEL_ERROR), Reason.MODEL_ERROR, 1),
    "too many requests": (Say(error=Reason.MODEL_RATE_LIMITED), Reason.MODEL_RATE_LIMITED, 1),
    "a server that is away": (Say(error=Reason.MODEL_UNREACHABLE), Reason.MODEL_UNREACHABLE, 1),
    "no answer in time": (Say(error=Reason.MODEL_TIMEOUT), Reason.MODEL_TIMEOUT, 1),
    "cut off before any number": (Say('{"relevant":[', cut=True), Reason.MODEL_TIMEOUT, 1),
}

ANSWERS = {
    "plain": ('{"relevant":[3,1],"sufficient":true}', ["m3", "m1"]),
    "fenced": ('```json\n{"relevant":[3,1],"sufficient":true}\n```', ["m3", "m1"]),
    "after thinking": ('<think>1? no, [5]</think>{"relevant":[3,1]}', ["m3", "m1"]),
    "only the end of the thinking": ('1? no, [5]</think>{"relevant":[3,1]}', ["m3", "m1"]),
    "with prose behind": ('{"relevant":[3,1]} These help the worker.', ["m3", "m1"]),
    "with a control token": ('{"relevant":[3,1]}<|im_end|>', ["m3", "m1"]),
    "with white space": ('{\n\t"relevant" :\t[ 3 ,\n 1 ]\n}', ["m3", "m1"]),
    "bare numbers": ("3,1", ["m3", "m1"]),
    "a string": ('"3,1"', ["m3", "m1"]),
    "some that were not offered": ('{"relevant":[3,77,1]}', ["m3", "m1"]),
    "twice the same": ('{"relevant":[3,3,1]}', ["m3", "m1"]),
    "always the first five": ("1,2,3,4,5", ["m1", "m2", "m3", "m4", "m5"]),
    "nothing": ("[]", []),
    "nothing with tabs": ("[\t\t\n]", []),
    "nothing in words": ("none", []),
    "nothing in a string": ('"none"', []),
}


async def answer(say: Say | str) -> tuple[list[str], ScriptedModel]:
    model = ScriptedModel([say])
    selection = await selector(model).select(
        task(), Recalled("reed organ", many(OFFERED)), Memories(), InjectionConfig(), Deadline.after(3)
    )
    assert selection.engine is Engine.LLM
    return ids(selection), model


@pytest.mark.parametrize("kind", FAILURES)
async def test_each_failure_has_its_reason_and_number_of_calls(kind: str) -> None:
    say, reason, calls = FAILURES[kind]
    model = ScriptedModel([say])
    with pytest.raises(ModelError) as caught:
        await selector(model).select(
            task(), Recalled("reed organ", many(OFFERED)), Memories(), InjectionConfig(), Deadline.after(3)
        )
    assert caught.value.reason is reason
    assert len(model.requests) == calls
    assert "organ" not in str(caught.value)


@pytest.mark.parametrize("kind", ANSWERS)
async def test_a_readable_answer_takes_one_call(kind: str) -> None:
    text, wanted = ANSWERS[kind]
    chosen, model = await answer(text)
    assert chosen == wanted
    assert len(model.requests) == 1


async def test_a_partial_answer_at_the_deadline_is_used() -> None:
    model = ScriptedModel([Say('{"relevant":[3,1', cut=True)])
    selection = await selector(model).select(
        task(), Recalled("reed organ", many(OFFERED)), Memories(), InjectionConfig(), Deadline.after(3)
    )
    assert ids(selection) == ["m3"]
    assert selection.partial
