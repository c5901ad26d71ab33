from collections.abc import Iterable
from time import monotonic

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooks.contract import Engine, Reason
from tests.support.scripted_model import Say, ScriptedModel, Step, offered, oracle
from tests.support.triage import PROMPT, Memories, candidate, ids, many, selector, task, verdicts
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError, StoreError
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, Recalled, Selection
from worker.settings.injection import InjectionConfig
from worker.triage.breaker import CircuitBreaker
from worker.triage.chat_selector import LlmSelector


async def select(
    steps: Iterable[Step],
    candidates: tuple[Candidate, ...],
    recall: Memories | None = None,
    seconds: float = 3.0,
    **config: int,
) -> tuple[Selection, ScriptedModel]:
    model = ScriptedModel(list(steps))
    recalled = Recalled("who tunes the reed organ", candidates)
    chosen = await selector(model).select(
        task(), recalled, recall or Memories(), InjectionConfig.model_validate(config), Deadline.after(seconds)
    )
    return chosen, model


async def test_the_model_s_order_is_kept_and_everything_is_accounted_for() -> None:
    selection, model = await select(['{"relevant":[3,1],"sufficient":true}'], many(5), triage_candidates=4)
    assert ids(selection) == ["m3", "m1"]
    assert selection.engine is Engine.LLM
    assert selection.prompt_id == "triage@2"
    assert verdicts(selection) == {
        "m2": CandidateVerdict.NOT_SELECTED,
        "m4": CandidateVerdict.NOT_SELECTED,
        "m5": CandidateVerdict.BELOW_CUT,
    }
    assert selection.usage is not None
    assert (selection.usage.calls, selection.usage.input_tokens, selection.usage.cached_tokens) == (1, 100, 5)
    assert len(model.requests) == 1


async def test_nothing_is_a_good_answer() -> None:
    selection, model = await select(["[]"], many(3))
    assert selection.chosen == ()
    assert set(verdicts(selection).values()) == {CandidateVerdict.NOT_SELECTED}
    assert len(model.requests) == 1


async def test_more_than_the_cap_is_cut() -> None:
    selection, _ = await select(['{"relevant":[4,3,2,1]}'], many(5), max_items=2)
    assert ids(selection) == ["m4", "m3"]
    assert verdicts(selection) == {
        "m2": CandidateVerdict.OVER_ITEMS,
        "m1": CandidateVerdict.OVER_ITEMS,
        "m5": CandidateVerdict.NOT_SELECTED,
    }


async def test_a_choice_of_everything_is_cut_to_its_best_and_noted() -> None:
    selection, model = await select(['{"relevant":[6,2,3,4,5,1]}'], many(6))
    assert ids(selection) == ["m6", "m2", "m3", "m4", "m5"]
    assert verdicts(selection) == {"m1": CandidateVerdict.OVER_ITEMS}
    assert selection.notes == ("over_selected: the model chose 6 memories; the first 5 were kept",)
    assert len(model.requests) == 1


async def test_numbers_that_were_not_offered_are_dropped_and_noted() -> None:
    selection, _ = await select(['{"relevant":[9,2,12]}'], many(3))
    assert ids(selection) == ["m2"]
    assert selection.notes == ("unknown_numbers: the model chose what was not offered: 9, 12",)


async def test_the_first_turn_has_a_schema_and_no_tools() -> None:
    _, model = await select(["[]"], many(3))
    request = model.requests[0]
    assert request.tools == ()
    assert request.schema is not None
    assert request.schema["properties"]["relevant"]["items"]["maximum"] == 3
    assert request.temperature == 0.0


async def test_an_insufficient_choice_gets_one_search_and_a_final_turn() -> None:
    recall = Memories({"Pavel": Recalled("Pavel", (candidate("m9", "Pavel comes every autumn"),))})
    steps: list[Step] = [
        '{"relevant":[1],"sufficient":false}',
        Say(tool_calls=(("recall", '{"query":"Pavel"}'),)),
        oracle(["note 1", "every autumn"]),
    ]
    selection, model = await select(steps, many(3), recall)
    assert ids(selection) == ["m1", "m9"]
    assert selection.recalls == ("Pavel",)
    assert [bool(r.tools) for r in model.requests] == [False, True, False]
    assert all(not (r.tools and r.schema) for r in model.requests)
    assert offered(model.requests[2])[4].endswith('"Pavel comes every autumn"')
    assert selection.usage is not None
    assert selection.usage.calls == 3


async def test_a_search_that_brings_nothing_new_costs_no_third_turn() -> None:
    steps: list[Step] = ['{"relevant":[1],"sufficient":false}', Say(tool_calls=(("recall", '{"query":"x"}'),)), "[2]"]
    selection, model = await select(steps, many(3), Memories({"x": Recalled("x", many(2))}))
    assert ids(selection) == ["m1"]
    assert len(model.requests) == 2


async def test_no_search_is_offered_when_time_is_short_or_none_is_left() -> None:
    step = '{"relevant":[1],"sufficient":false}'
    for seconds, recalls in ((1.0, 3), (3.0, 1)):
        selection, model = await select([step], many(3), seconds=seconds, max_recalls=recalls)
        assert ids(selection) == ["m1"]
        assert len(model.requests) == 1


async def test_a_later_failure_leaves_the_first_choice() -> None:
    for failure in (Say(error=Reason.MODEL_TIMEOUT), Say("prose prose"), Say("", finish_reason="length")):
        selection, _ = await select(['{"relevant":[2],"sufficient":false}', failure], many(3))
        assert ids(selection) == ["m2"]


async def test_a_tool_call_written_as_text_is_made() -> None:
    recall = Memories({"twins dentist": Recalled("twins dentist", (candidate("m7", "Dr. Okonjo, Wed 16:10"),))})
    steps: list[Step] = ['{"name":"recall","arguments":{"query":"twins dentist"}}', oracle(["Okonjo"])]
    selection, model = await select(steps, many(1), recall)
    assert ids(selection) == ["m7"]
    assert model.requests[1].schema is not None


async def test_an_obedient_model_is_held_to_the_limits() -> None:
    """A planted memory makes the model search for other things and choose everything."""
    steps: list[Step] = [f'recall(query="{what}")' for what in ("regatta", "salary list", "passwords", "more")]
    recall = Memories()
    with pytest.raises(ModelError) as caught:
        await select(steps, many(3), recall)
    assert caught.value.reason is Reason.MODEL_UNPARSEABLE
    assert [query.query for query in recall.asked] == ["regatta", "salary list"]


@pytest.mark.parametrize(
    "call",
    [
        Say(tool_calls=(("recall", "{}"),)),
        Say(tool_calls=(("recall", '{"query":"Who tunes the reed organ"}'),)),
        Say(tool_calls=(("recall", '{"query": "reed or'),), finish_reason="length"),
        Say(tool_calls=(("send_mail", '{"query":"organ"}'),)),
    ],
    ids=["empty", "the query that was made", "cut off", "another tool"],
)
async def test_a_useless_call_is_refused_and_the_second_one_ends_the_loop(call: Say) -> None:
    recall, model = Memories(), ScriptedModel([call])
    with pytest.raises(ModelError) as caught:
        await selector(model).select(
            task(), Recalled("who tunes the reed organ", many(1)), recall, InjectionConfig(), Deadline.after(3)
        )
    assert caught.value.reason is Reason.MODEL_UNPARSEABLE
    assert len(model.requests) == 2
    assert recall.asked == []


async def test_a_refused_call_may_be_followed_by_a_choice() -> None:
    selection, _ = await select([Say(tool_calls=(("recall", "{}"),)), "[1]"], many(2))
    assert ids(selection) == ["m1"]


async def test_bare_string_arguments_and_parallel_calls_stay_within_the_limit() -> None:
    recall = Memories()
    calls = tuple(("recall", f'"organ {i}"') for i in range(5))
    selection, _ = await select([Say(tool_calls=calls), "[1]"], many(1), recall)
    assert [query.query for query in recall.asked] == ["organ 0", "organ 1"]
    assert ids(selection) == ["m1"]


async def test_a_failed_search_does_not_fail_the_request() -> None:
    steps: list[Step] = [Say(tool_calls=(("recall", '{"query":"x"}'),)), "[1]"]
    selection, _ = await select(steps, many(2), Memories(error=StoreError("down")))
    assert ids(selection) == ["m1"]
    assert selection.recalls == ("x",)


async def test_what_a_search_dropped_is_told_once() -> None:
    dropped = Dropped(candidate("m8", "old"), CandidateVerdict.BELOW_THRESHOLD)
    recall = Memories({q: Recalled(q, (candidate("m9", "new"),), (dropped,)) for q in ("x", "y")})
    calls = (("recall", '{"query":"x"}'), ("recall", '{"query":"y"}'))
    selection, _ = await select([Say(tool_calls=calls), "[2]"], many(1), recall)
    assert ids(selection) == ["m9"]
    assert [d.candidate.memory.id for d in selection.dropped] == ["m1", "m8"]


async def test_what_had_no_place_among_the_candidates_can_be_searched_for() -> None:
    recall = Memories({"x": Recalled("x", many(4)), "y": Recalled("y", many(5))})
    calls = (("recall", '{"query":"x"}'), ("recall", '{"query":"y"}'))
    steps: list[Step] = ['{"relevant":[],"sufficient":false}', Say(tool_calls=calls), oracle(["note 4"])]
    selection, model = await select(steps, many(6), recall, triage_candidates=2)
    assert list(offered(model.requests[2])) == [1, 2, 3, 4]
    assert ids(selection) == ["m4"]
    assert verdicts(selection) == {
        **dict.fromkeys(("m1", "m2", "m3"), CandidateVerdict.NOT_SELECTED),
        **dict.fromkeys(("m5", "m6"), CandidateVerdict.BELOW_CUT),
    }


async def test_searches_of_one_turn_share_the_places() -> None:
    found = [tuple(candidate(f"{name}{i}", f"{name} {i}") for i in range(5)) for name in ("x", "y")]
    recall = Memories({name: Recalled(name, those) for name, those in zip(("x", "y"), found, strict=True)})
    calls = (("recall", '{"query":"x"}'), ("recall", '{"query":"y"}'))
    steps: list[Step] = ['{"relevant":[],"sufficient":false}', Say(tool_calls=calls), oracle(["y 0"])]
    selection, model = await select(steps, many(1), recall, triage_candidates=4)
    assert [line[-4:-1] for line in offered(model.requests[2]).values()] == ["e 1", "x 0", "y 0", "x 1", "y 1"]
    assert ids(selection) == ["y0"]


async def test_an_unreadable_answer_is_repaired_once() -> None:
    selection, model = await select(["The organ is tuned by Pavel.", '{"relevant":[2]}'], many(3))
    assert ids(selection) == ["m2"]
    assert model.requests[1].messages[-1]["content"] == PROMPT.section("repair")
    with pytest.raises(ModelError) as caught:
        await select(["prose"], many(3))
    assert caught.value.reason is Reason.MODEL_UNPARSEABLE


async def test_what_was_asked_and_answered_is_kept_where_that_is_wanted() -> None:
    steps: list[Step] = ["The organ is tuned by Pavel.", '{"relevant":[2]}']
    selection, model = await select(steps, many(3), receipt_model_texts=True)
    first, second = selection.exchanges
    assert PROMPT.system in first.prompt
    assert str(model.requests[0].messages[-1]["content"]) in first.prompt
    assert (first.answer, second.answer) == tuple(steps)
    assert PROMPT.section("repair") in second.prompt
    assert PROMPT.system not in second.prompt, "what was asked before is not repeated"
    assert (await select(steps, many(3)))[0].exchanges == ()


async def test_an_answer_that_made_no_sense_is_kept_too() -> None:
    for wanted, answers in ((True, ["prose", "prose"]), (False, [])):
        with pytest.raises(ModelError) as caught:
            await select(["prose"], many(3), receipt_model_texts=wanted)
        assert [one.answer for one in caught.value.exchanges] == answers


@pytest.mark.parametrize(
    ("say", "reason", "calls"),
    [
        (Say('{"relevant":[1,', finish_reason="length"), Reason.MODEL_TRUNCATED, 1),
        (Say("", finish_reason="length"), Reason.MODEL_TRUNCATED, 1),
        (Say("I'm sorry, I can't help with that."), Reason.MODEL_REFUSED, 1),
        (Say('{"relevant":[77]}'), Reason.MODEL_UNPARSEABLE, 2),
        (Say(error=Reason.MODEL_RATE_LIMITED), Reason.MODEL_RATE_LIMITED, 1),
    ],
)
async def test_every_failure_has_its_reason(say: Say, reason: Reason, calls: int) -> None:
    model = ScriptedModel([say])
    with pytest.raises(ModelError) as caught:
        await selector(model).select(task(), Recalled("q", many(3)), Memories(), InjectionConfig(), Deadline.after(3))
    assert caught.value.reason is reason
    assert len(model.requests) == calls


async def test_a_truncated_answer_whose_numbers_are_complete_is_used() -> None:
    selection, _ = await select([Say('{"relevant":[2,1],"suff', finish_reason="length")], many(3))
    assert ids(selection) == ["m2", "m1"]


async def test_no_call_is_made_without_time() -> None:
    model = ScriptedModel(["[]"])
    with pytest.raises(ModelError) as caught:
        await selector(model).select(
            task(), Recalled("q", many(3)), Memories(), InjectionConfig(), Deadline.after(0.05)
        )
    assert caught.value.reason is Reason.MODEL_NO_TIME
    assert model.requests == []


async def test_a_slow_model_is_given_up_at_the_deadline() -> None:
    started = monotonic()
    with pytest.raises(ModelError) as caught:
        await select([Say("[]", delay=30)], many(3), seconds=0.3)
    assert caught.value.reason is Reason.MODEL_TIMEOUT
    assert monotonic() - started < 0.3 + 1.0  # the deadline, and slack for a busy machine


async def test_the_breaker_pauses_the_model_and_tries_it_again() -> None:
    now = [100.0]
    model = ScriptedModel([Say(error=Reason.MODEL_TIMEOUT)] * 2 + ["[1]"])
    chooser = LlmSelector(
        model, PROMPT, CircuitBreaker(threshold=2, pause=20), lambda: now[0], present=lambda text: text
    )
    reasons = []
    for _ in range(3):
        with pytest.raises(ModelError) as caught:
            await chooser.select(task(), Recalled("q", many(2)), Memories(), InjectionConfig(), Deadline.after(3))
        reasons.append(caught.value.reason)
    assert reasons == [Reason.MODEL_TIMEOUT, Reason.MODEL_TIMEOUT, Reason.MODEL_PAUSED]
    assert len(model.requests) == 2
    now[0] += 21
    selection = await chooser.select(task(), Recalled("q", many(2)), Memories(), InjectionConfig(), Deadline.after(3))
    assert ids(selection) == ["m1"]


def test_an_open_breaker_lets_one_probe_through_per_pause() -> None:
    breaker = CircuitBreaker(threshold=1, pause=10)
    assert breaker.allow(0)
    breaker.record_failure(0)
    assert breaker.blocked_until is not None
    assert not breaker.allow(9)
    assert [breaker.allow(10), breaker.allow(11), breaker.allow(20)] == [True, False, True]
    breaker.record_success()
    assert breaker.allow(21)
    assert breaker.blocked_until is None


@settings(max_examples=60, deadline=None)
@given(
    answers=st.lists(
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(
                [
                    '{"relevant":[1],"sufficient":false}',
                    'recall("a")',
                    'recall("b")',
                    "[9]",
                    "[2,1]",
                    "none",
                    '{"relevant":[',
                ]
            ),
        ),
        min_size=1,
        max_size=4,
    )
)
async def test_whatever_the_model_says_only_offered_memories_are_chosen(answers: list[str]) -> None:
    recall = Memories({"a": Recalled("a", (candidate("m9", "nine"),))})
    model = ScriptedModel(list(answers))
    candidates = many(4)
    try:
        selection = await selector(model).select(
            task(), Recalled("q", candidates), recall, InjectionConfig(max_items=3), Deadline.after(3)
        )
    except ModelError:
        selection = Selection((), Engine.LLM)
    known = {c.memory.id: c for c in (*candidates, candidate("m9", "nine"))}
    assert all(known[c.memory.id] == c for c in selection.chosen)
    assert len(set(ids(selection))) == len(selection.chosen) <= 3
    assert len(model.requests) <= 3
    assert len(recall.asked) <= 2
