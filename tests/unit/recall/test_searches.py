"""The searches of a recall, and the neighbours of its best hits."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hooks.contract import InjectionRequest
from worker.domain.kinds import Budget, SearchKind
from worker.domain.memory import Memory, MemoryFilter, MemoryType, RecallQuery, Visibility
from worker.query.focus import focus
from worker.recall.ranking import Entry
from worker.recall.searches import (
    COMMON_NAME,
    about_the_past,
    filter_of,
    first_query,
    kept_for_history,
    linked_ids,
    links,
    plan_of,
    shared_names,
)
from worker.settings.injection import InjectionConfig

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
WHERE = MemoryFilter(Visibility(users=("u1",), valid_at=NOW))


def searches(query: RecallQuery, **settings: Any) -> Counter[SearchKind]:
    return Counter(one.search_kind for one in plan_of(query, WHERE, NOW, InjectionConfig(**settings)).searches)


def request(message: str, **fields: Any) -> InjectionRequest:
    return InjectionRequest.model_validate({"session_id": "s", "message": message, **fields})


def first(message: str, **fields: Any) -> RecallQuery:
    config, asked = InjectionConfig(), request(message, **fields)
    return first_query(asked, focus(asked, config), config)


def entry(key: str, relevance: float = 0.5, content: str = "text", **fields: Any) -> Entry:
    return Entry(Memory(id=key, content=content, **fields), None, relevance, None, relevance)


def relations(*targets: str, kind: str = "related_to") -> list[dict[str, str]]:
    return [{"kind": kind, "target": target} for target in targets]


def test_a_low_budget_searches_the_message_alone() -> None:
    query = RecallQuery("what did Imre say last week", also=("Imre's report",))
    assert searches(query, recall_budget="low") == {SearchKind.MESSAGE: 1}
    assert searches(RecallQuery(query.query, budget=Budget.LOW)) == {SearchKind.MESSAGE: 1}
    assert searches(query) == {SearchKind.MESSAGE: 1, SearchKind.WORDING: 1, SearchKind.DATED: 1, SearchKind.NAMED: 1}


def test_a_high_budget_searches_for_each_part_of_the_message() -> None:
    query = RecallQuery("Book the ferry for Solveig. Order sailcloth from Varg.")
    assert SearchKind.WORDING not in searches(query)
    assert searches(query, recall_budget="high")[SearchKind.WORDING] == 2


def test_every_search_has_the_limit_and_the_filter() -> None:
    plan = plan_of(
        RecallQuery("Imre's report of last week", also=("x y",)), WHERE, NOW, InjectionConfig(search_limit=7)
    )
    assert {search.limit for search in plan.searches} == {7}
    assert all(search.where.visibility == WHERE.visibility for search in plan.searches)
    assert len(plan.searches) == 4


def test_a_time_in_the_message_adds_a_narrowed_search() -> None:
    plan = plan_of(RecallQuery("what went wrong last week"), WHERE, NOW, InjectionConfig())
    (dated,) = [search for search in plan.searches if search.search_kind is SearchKind.DATED]
    assert dated.where.since == datetime(2026, 3, 9, tzinfo=UTC)
    assert dated.where.until is not None
    assert NOW > dated.where.until > datetime(2026, 3, 15, 23, tzinfo=UTC)


def test_explicit_filters_override_those_of_the_message() -> None:
    query = RecallQuery("Imre last week", since=NOW - timedelta(days=1), entities=("Imre",))
    assert searches(query) == {SearchKind.MESSAGE: 1}


def test_filters_come_from_the_query() -> None:
    query = RecallQuery("x", (MemoryType.TODO,), ("ÉMILE",), NOW, NOW, ("#ops",))
    where = filter_of(query, Visibility(users=("u1",)))
    assert where == MemoryFilter(
        Visibility(users=("u1",), superseded=True), (MemoryType.TODO,), ("émile",), NOW, NOW, channels=("#ops",)
    )


def test_a_request_recalls_its_task_too() -> None:
    query = first("go", task_description="Renew the harbour permit", source="cron")
    assert (query.query, query.pinned, query.history) == ("go Renew the harbour permit", True, False)
    assert query.also == ("Renew the harbour permit",)
    assert first("Renew the permit", task_description="Renew the permit").also == ()


PAST = (
    "What rate did we pay? it used to be 40",
    "was war früher die Adresse",
    "quel était le prix à l'époque",
    "¿qué límite teníamos anteriormente?",
    "qual era o valor naquela altura",
    "以前の住所は？",
    "예전 주소가 뭐였지",
)


@pytest.mark.parametrize("text", PAST)
def test_messages_about_the_past(text: str) -> None:
    assert about_the_past(text)
    assert first(text).history


@pytest.mark.parametrize(
    "text",
    ["finish it before Friday", "envoie-le avant vendredi", "antes de las nueve", "the former gym", "use it to go"],
)
def test_messages_that_only_sound_like_the_past(text: str) -> None:
    assert not about_the_past(text)


def test_superseded_memories_are_kept_for_questions_about_the_past() -> None:
    old = Memory(id="m", content="x", superseded_by="n", superseded_at=NOW - timedelta(days=2))
    plan = plan_of(RecallQuery("the numbers of last week"), WHERE, NOW, InjectionConfig())
    assert plan.span is not None
    assert kept_for_history(old, RecallQuery("x", history=True), None, NOW)
    assert kept_for_history(old, RecallQuery("x"), plan.span, NOW)
    assert not kept_for_history(old, RecallQuery("x"), None, NOW)
    before = old.model_copy(update={"superseded_at": NOW - timedelta(days=30)})
    assert not kept_for_history(before, RecallQuery("x"), plan.span, NOW)


def test_followed_links() -> None:
    seed = entry("a", relations=[*relations("b", "c", "d"), *relations("old", kind="supersedes")])
    assert linked_ids([seed], {"b": None}, 10) == ("c", "d")
    assert linked_ids([seed], {}, 2) == ("b", "c")


def test_followed_names() -> None:
    seeds = [
        entry("a", content="Mirela Stanek is coeliac", entities=("Mirela", "Canteen", "Team")),
        entry("b", content="x", entities=("Team",)),
        entry("c", content="y", entities=("Team", "Canteen")),
    ]
    assert shared_names(seeds) == ("canteen",)


def test_links_count_both_ways_and_names_add_up() -> None:
    entries = {
        one.memory.id: one
        for one in (
            entry("a", 0.8, relations=relations("b"), entities=("Kiln",)),
            entry("b", 0.1),
            entry("c", 0.2, relations=relations("a"), entities=("kiln",)),
            entry("d", 0.1),
        )
    }
    found = links([entries["a"]], entries)
    assert found.by_link == {"b": 0.8, "c": 0.8}
    assert found.by_name == pytest.approx({"c": 0.8 * 0.5})


def test_a_name_in_every_memory_is_ignored() -> None:
    entries = {f"m{n}": entry(f"m{n}", entities=("Harbour",)) for n in range(COMMON_NAME + 1)}
    assert links([entries["m0"]], entries).by_name == {}
