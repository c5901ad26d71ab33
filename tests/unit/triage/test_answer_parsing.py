import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worker.domain.kinds import Budget
from worker.domain.memory import MemoryType, RecallQuery
from worker.triage.answer_parsing import (
    Choice,
    ToolRequest,
    Unparseable,
    UnusableAnswer,
    ignored_filters,
    parse_arguments,
    parse_choice,
    parse_partial,
    recall_query,
)


def test_numbers_that_were_not_offered_are_kept_apart() -> None:
    assert parse_choice('{"relevant":[2,9,2,1,0]}', 5) == Choice((2, 1), unknown=(9, 0))
    assert parse_choice("2, 17", 5) == Choice((2,), unknown=(17,))
    assert parse_choice("[9]", 5) == Unparseable(UnusableAnswer.UNKNOWN_IDS)
    assert parse_partial('{"relevant":[9,2,1', 5) == Choice((2,), unknown=(9,))


@pytest.mark.parametrize(
    ("arguments", "ignored"),
    [
        ({"types": ["fact", "gossip"], "entity": "Pavel", "since": "2026-01-02", "until": "soon"}, ("types", "until")),
        ({"since": "2026-13-45", "budget": "unlimited", "history": "maybe"}, ("since", "budget", "history")),
        ({"since": "2026-05-01", "until": "2026-04-01"}, ("since", "until")),
        ({"since": "2026-05-01", "until": "2026-06-01", "time": "last week"}, ("time",)),
        ({"since": None, "types": [], "entity": "", "time": "last week", "channel": "#ops"}, ()),
        ({"tenant": "t2", "user": "bob", "entities": [7], "x y\nz": 1}, ("tenant", "user", "entities", "unnamed")),
    ],
)
def test_filters_that_cannot_be_are_named(arguments: dict[str, Any], ignored: tuple[str, ...]) -> None:
    assert ignored_filters(ToolRequest("recall", {"query": "organ", **arguments})) == ignored


def test_a_search_may_name_a_channel_and_a_time_in_words() -> None:
    call = ToolRequest("recall", {"query": "organ", "channel": "#ops", "time": "last week"})
    assert recall_query(call) == RecallQuery("organ", channels=("#ops",), time="last week")
    dated = recall_query(ToolRequest("recall", {"query": "organ", "time": "last week", "since": "2026-01-02"}))
    assert dated == RecallQuery("organ", since=datetime(2026, 1, 2))
    impossible = {"query": "organ", "since": "2026-05-01T00:00:00Z", "until": "2026-04-01"}
    empty = recall_query(ToolRequest("recall", impossible))
    assert empty == RecallQuery("organ"), "no memory is of a time that cannot be"


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('{"relevant":[3,1],"sufficient":true}', (3, 1)),
        ('{"relevant": ["3", "[1]"]}', (3, 1)),
        ('```json\n{"ids": ["1"]}\n```', (1,)),
        ('Sure! Here you go:\n```\n["1"]\n```\nHope it helps', (1,)),
        ('{"ids": ["1"], "why": "has ```gcode``` in it"}', (1,)),
        ("{'ids': ['1',]}", (1,)),
        ("ids: 1", (1,)),
        ('<think>maybe [4] or {"relevant":[5]}</think>{"relevant":[2]}', (2,)),
        ("[5] looks odd</think>\n[2]", (2,)),
        ("1,2", (1, 2)),
        ("[2]", (2,)),
        ("3", (3,)),
        ("Answer: [4, 2].", (4, 2)),
        ("none", ()),
        ("None.", ()),
        ("[]", ()),
        ("No relevant memories.", ()),
        ('{"relevant":[]}', ()),
        ('{"relevant":null}', ()),
        ('{"relevant":"3,1"}', (3, 1)),
        ('{"relevant":"none"}', ()),
        ('{"1":true,"2":false,"3":true}', (1, 3)),
        ('{"relevant":[{"id":2},{"id":"4"}]}', (2, 4)),
        ('{\n\t\t"relevant"\t:\n\n [\t1\n\n,\t3 ]\n\n\n}', (1, 3)),
        ('{"relevant":[3,1],"suffic', (3, 1)),
        ('{"relevant":[2]}\nMessage: "next"\n{"relevant":[5]}', (2,)),
        ('{"relevant":[1]}<|im_end|>', (1,)),
    ],
)
def test_reads_a_choice_in_any_usual_shape(text: str, ids: tuple[int, ...]) -> None:
    assert parse_choice(text, 5) == Choice(ids)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", UnusableAnswer.EMPTY),
        ("<think>never ends", UnusableAnswer.EMPTY),
        ("Hanne tightens bolt 7 first, torque 21 Nm, and checks the gasket.", UnusableAnswer.PROSE),
        ("[1] is not relevant but [3] may be useful", UnusableAnswer.PROSE),
        ("{}", UnusableAnswer.PROSE),
        ('{\n "relevant":[', UnusableAnswer.TRUNCATED),
        ('{"relevant":[1,2,', UnusableAnswer.TRUNCATED),
        ('{"relevant":[7,8]}', UnusableAnswer.UNKNOWN_IDS),
        ('{"relevant":[0,-1]}', UnusableAnswer.UNKNOWN_IDS),
        ('{"relevant":[m1]}', UnusableAnswer.PROSE),
        ("I'm sorry, but I can't help with that.", UnusableAnswer.REFUSAL),
        ("As an AI language model I must decline.", UnusableAnswer.REFUSAL),
    ],
)
def test_names_what_is_wrong(text: str, fault: UnusableAnswer) -> None:
    assert parse_choice(text, 5) == Unparseable(fault)


def test_reads_whether_the_candidates_suffice() -> None:
    assert parse_choice('{"relevant":[1],"sufficient":false}', 5) == Choice((1,), sufficient=False)
    assert parse_choice('{"relevant":[1],"sufficient":"false"}', 5) == Choice((1,), sufficient=False)
    assert parse_choice('{"relevant":[1],"sufficient":false,"x', 5) == Choice((1,), sufficient=False)


@pytest.mark.parametrize(
    "text",
    [
        '{"name":"recall","arguments":{"query":"twins dentist"}}',
        '{"name":"recall","parameters":{"query":"twins dentist"}}',
        '{"name":"recall","arguments":"{\\"query\\":\\"twins dentist\\"}"}',
        '{"name":"recall","arguments":"twins dentist"}',
        '{"name":"recall","arguments":{"query":"twins dentist"}}\n{"name":"recall","arguments":{"query":"other"}}',
        '```json\n{"name":"recall","arguments":{"query":"twins dentist"}}\n```',
        'recall(query="twins dentist")',
        "I will call recall('twins dentist') now.",
        '<tool_call>{"name":"recall","arguments":{"query":"twins dentist"}}</tool_call>',
        "<tool_call>\n<function=recall>\n<parameter=query>\ntwins dentist\n</parameter>\n</function>\n</tool_call>",
        '<function=recall>{"query": "twins dentist"}</function>',
        '[TOOL_CALLS][{"name":"recall","arguments":{"query":"twins dentist"}}]',
        '{"tool_calls":[{"type":"function","function":{"name":"recall","arguments":{"query":"twins dentist"}}}]}',
        '{"tool":"recall","query":"twins dentist"}',
        '{"recall":{"query":"twins dentist"}}',
        '<|python_tag|>recall.call(query="twins dentist")',
        "{'name': 'recall', 'arguments': {'query': 'twins dentist'}}",
        'search_memory({"q": 1}) {"name":"search_memory","arguments":{"q":"twins dentist"}}',
    ],
)
def test_reads_a_tool_call_written_as_text(text: str) -> None:
    call = parse_choice(text, 5)
    assert isinstance(call, ToolRequest)
    assert recall_query(call) == RecallQuery("twins dentist")


def test_a_search_keeps_known_parameters_and_drops_invented_ones() -> None:
    arguments = {
        "query": "  reed \n organ ",
        "types": ["fact", "gossip"],
        "entity": "Pavel",
        "since": "2026-01-02",
        "until": "soon",
        "tenant": "t2",
        "user": "somebody",
        "budget": "high",
    }
    assert recall_query(ToolRequest("recall", arguments)) == RecallQuery(
        "reed organ", (MemoryType.FACT,), ("Pavel",), datetime(2026, 1, 2), None, budget=Budget.HIGH
    )
    for invented in ("unlimited", 3, None):
        query = recall_query(ToolRequest("recall", {**arguments, "budget": invented}))
        assert query is not None
        assert query.budget is None


@pytest.mark.parametrize(
    ("said", "last"),
    [
        ("2026-03-05", datetime(2026, 3, 5, 23, 59, 59, 999999)),
        ("2026-03-05T09:30:00+02:00", datetime(2026, 3, 5, 7, 30, tzinfo=UTC)),
    ],
)
def test_a_search_up_to_a_day_holds_the_whole_day(said: str, last: datetime) -> None:
    query = recall_query(ToolRequest("recall", {"query": "organ", "until": said}))
    assert query is not None
    assert query.until == last


@pytest.mark.parametrize(
    ("said", "wanted"), [(True, True), ("true", True), (False, False), ("maybe", False), (1, False), (None, False)]
)
def test_what_is_out_of_date_is_searched_for_only_where_that_is_plainly_asked(said: object, wanted: bool) -> None:
    assert recall_query(ToolRequest("recall", {"query": "organ", "history": said})) == RecallQuery(
        "organ", history=wanted
    )


@pytest.mark.parametrize(
    "call",
    [
        ToolRequest("recall", {}),
        ToolRequest("recall", {"query": " "}),
        ToolRequest("recall", {"query": 3}),
        ToolRequest("recall", None),
        ToolRequest("delete_everything", {"query": "x"}),
    ],
)
def test_a_call_without_a_query_or_of_another_tool_is_no_search(call: ToolRequest) -> None:
    assert recall_query(call) is None


def test_bare_arguments_are_repaired() -> None:
    assert parse_arguments('"reed organ"') == {"query": "reed organ"}
    assert parse_arguments("reed organ") == {"query": "reed organ"}
    assert parse_arguments('"{\\"query\\": \\"reed\\"}"') == {"query": "reed"}
    assert parse_arguments("") == {}
    assert parse_arguments('{"query": "reed or') is None
    assert parse_arguments("[1]") is None


JSON_FRAGMENTS = ['{"relevant":[', "]}", "[1", ",2", "9]", '"sufficient":false', "{", "}", "[", "]", "'", '"', "1e999"]
OTHER_FRAGMENTS = ["<think>", "</think>", "```json\n", "recall(", ")", 'query="x"', "none", " ", "\n", "NaN", "\u2028"]
FRAGMENTS = st.sampled_from([*JSON_FRAGMENTS, *OTHER_FRAGMENTS, "<function=recall>", "\x00"])
ANSWERS = st.one_of(st.text(), st.lists(st.one_of(FRAGMENTS, st.text(max_size=5)), max_size=30).map("".join))


@given(text=ANSWERS, offered=st.integers(0, 12))
@example(text="[" * 20_000, offered=3)
@example(text='{"a":' * 5_000, offered=3)
@example(text='{"relevant":[1' + " \t\n" * 10_000, offered=3)
@example(text="recall" * 5_000, offered=3)
@example(text='{"relevant":[' + "9" * 6_000 + "]}", offered=3)
@example(text='{"relevant":[1e400,NaN,Infinity,-0.0,1.5]}', offered=3)
@example(text='{"tool_calls":' * 400 + "1" + "}" * 400, offered=3)
def test_any_answer_yields_offered_and_unique_ids(text: str, offered: int) -> None:
    answer = parse_choice(text, offered)
    if isinstance(answer, Choice):
        assert len(set(answer.ids)) == len(answer.ids)
        assert all(1 <= number <= offered for number in answer.ids)
    if isinstance(answer, ToolRequest):
        query = recall_query(answer)
        assert query is None or query.query.strip()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('{"relevant":[3,1', (3,)),
        ('{"relevant":[3,12,', (3, 12)),
        ('{"relevant": ["3", "1"', (3, 1)),
        ('{"relevant":[3,1],"suff', (3, 1)),
        ('"3,1,', (3, 1)),
        ("[2,4,1", (2, 4)),
        ('```json\n{"relevant":[2,\n', (2,)),
        ('{"relevant":[99,1,', (1,)),
        ('{"relevant":[3', None),
        ('{"relevant":[', None),
        ('{"relevant":[]', None),
        ('<think>{"relevant":[3,1,', None),
        ("Candidates 1, 2 and 3 are", None),
        ("", None),
    ],
)
def test_of_an_answer_that_was_cut_off_whole_numbers_count(text: str, ids: tuple[int, ...] | None) -> None:
    choice = parse_partial(text, 12)
    assert (choice and choice.ids) == ids


@given(
    ids=st.lists(st.integers(1, 50), min_size=1, max_size=8, unique=True),
    sufficient=st.booleans(),
    separators=st.sampled_from([(",", ":"), (", ", ": ")]),
    cut=st.integers(0, 60),
)
def test_a_part_of_an_answer_says_a_part_of_what_the_whole_says(
    ids: list[int], sufficient: bool, separators: tuple[str, str], cut: int
) -> None:
    whole = json.dumps({"relevant": ids, "sufficient": sufficient}, separators=separators)
    choice = parse_partial(whole[:cut], 50)
    found = list(choice.ids) if choice else []
    assert found == ids[: len(found)]
    assert whole[:cut].count(",") <= len(found) + 1


@given(text=ANSWERS, offered=st.integers(0, 12))
def test_any_part_of_an_answer_yields_offered_and_unique_ids(text: str, offered: int) -> None:
    choice = parse_partial(text, offered)
    assert choice is None or (choice.ids and set(choice.ids) <= set(range(1, offered + 1)))
    assert choice is None or len(set(choice.ids)) == len(choice.ids)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@given(arguments=st.dictionaries(st.sampled_from(["query", "q", "types", "entity", "since", "until", "x"]), JSON))
def test_any_arguments_yield_a_search_or_none(arguments: dict[str, Any]) -> None:
    query = recall_query(ToolRequest("recall", arguments))
    assert query is None or (query.query and set(query.types) <= set(MemoryType))


@given(raw=ANSWERS)
def test_any_raw_arguments_can_be_read_or_not(raw: str) -> None:
    assert isinstance(parse_arguments(raw), dict | None)
