import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.support.store import CREATED, memory, profile, stored
from tests.support.vectors import row
from worker.adapters.qdrant.filters import AnyOf, Equals, InRange, conditions
from worker.adapters.qdrant.hits import (
    MOST_ASKED,
    Content,
    RawHit,
    best,
    contenders,
    contents_of,
    distinct_ids,
    listing_of,
    merge,
    settled,
    unscored,
)
from worker.adapters.qdrant.payload import (
    FAR_FUTURE,
    LONG_AGO,
    by_point,
    payload_of,
    point_id,
    row_in,
    timestamp,
)
from worker.domain.errors import StoreError
from worker.domain.memory import MemoryFilter, MemoryScope, MemoryType, Relation, Visibility
from worker.domain.vectors import usable
from worker.ports.store_record import UNKNOWN_RECORD, StoreRecord, check_compatibility


def test_a_memory_comes_back_from_its_payload_unchanged() -> None:
    original = memory(
        "m1",
        "Zürich \u0000 🙂 経費",
        type="todo",
        entities=("Émile", "Bridge"),
        relations=(Relation(kind="updates", target="m0"),),
        scope=MemoryScope(user="u", agent="a", project="p"),
        channel="dm",
        occurred_at=CREATED,
        valid_until=CREATED + timedelta(days=3, microseconds=7),
        version=4,
    )
    payload = payload_of("t", original)
    assert row_in(json.loads(json.dumps(payload))).memory == original
    assert payload["entities"] == ["émile", "bridge"]
    assert (payload["tenant"], payload["user"], payload["agent"], payload["project"]) == ("t", "u", "a", "p")


def test_only_a_pinned_memory_says_so_in_its_json_and_matches_the_filter() -> None:
    pinned, plain = payload_of("t", memory("m1", pinned=True)), payload_of("t", memory("m2"))
    assert row_in(pinned).memory.pinned
    assert not row_in(plain).memory.pinned
    assert '"pinned"' not in plain["memory"]
    (condition,) = set(conditions("t", MemoryFilter(pinned=True))) - set(conditions("t", MemoryFilter()))
    assert condition == Equals("pinned", pinned["pinned"])
    assert condition != Equals("pinned", plain["pinned"])


def test_a_memory_without_owner_or_dates_gets_sentinels() -> None:
    payload = payload_of("t", memory("m1", created_at=None))
    assert (payload["user"], payload["agent"], payload["project"], payload["channel"]) == ("", "", "", "")
    assert payload["created_ts"] == LONG_AGO
    assert payload["superseded_ts"] == payload["valid_until_ts"] == FAR_FUTURE


def test_superseded_without_a_known_time_counts_as_always_superseded() -> None:
    assert payload_of("t", memory("m1", superseded_by="m2"))["superseded_ts"] == LONG_AGO
    timed = memory("m1", superseded_by="m2", superseded_at=CREATED)
    assert payload_of("t", timed)["superseded_ts"] == timestamp(CREATED)


@pytest.mark.parametrize("payload", [None, {}, {"memory": 3}, {"memory": "{"}, {"memory": '{"id":"x"}'}])
def test_a_payload_without_a_memory_is_a_store_error(payload: dict[str, object] | None) -> None:
    with pytest.raises(StoreError):
        row_in(payload)


def test_point_ids_differ_by_tenant_and_by_memory_and_survive_any_text() -> None:
    ids = {point_id(tenant, key) for tenant in ("a", "ab", '"') for key in ("bc", "c", '","', "\x00", "x" * 512)}
    assert len(ids) == 15
    assert point_id("a", "bc") == point_id("a", "bc")
    assert point_id("a", "\ud800") == point_id("a", memory("\ud800").id)


def test_the_last_of_several_memories_with_one_id_counts() -> None:
    found = by_point("t", [stored(memory("m1", "old")), stored(memory("m2")), stored(memory("m1", "new"))])
    assert [item.memory.content for item in found.values()] == ["new", memory("m2").content]


def test_times_are_exact_to_the_microsecond_and_bounded() -> None:
    moment = datetime(2026, 2, 1, 8, 29, 42, 958511, tzinfo=UTC)
    assert timestamp(moment) == 1769934582958511
    assert timestamp(moment.replace(tzinfo=None)) == timestamp(moment)
    assert timestamp(moment.astimezone(timezone(timedelta(hours=9)))) == timestamp(moment)
    assert LONG_AGO <= timestamp(datetime.min) < timestamp(datetime.max) <= FAR_FUTURE
    assert float(FAR_FUTURE) == FAR_FUTURE
    assert float(LONG_AGO) == LONG_AGO


@pytest.mark.parametrize("where", [None, MemoryFilter(), MemoryFilter(Visibility(), (MemoryType.FACT,), ("x",))])
def test_the_tenant_comes_first_and_always(where: MemoryFilter | None) -> None:
    assert conditions("north", where)[0] == Equals("tenant", "north")


def test_there_is_no_filter_without_a_tenant() -> None:
    with pytest.raises(StoreError, match="tenant"):
        conditions("", MemoryFilter())


def test_a_filter_compiles_every_field() -> None:
    now = CREATED + timedelta(days=1)
    where = MemoryFilter(
        Visibility(("u",), ("a", "b"), (), valid_at=now, created_until=now),
        types=(MemoryType.TODO,),
        entities=("BRIDGE",),
        since=CREATED,
        until=now,
    )
    at = timestamp(now)
    assert conditions("t", where) == (
        Equals("tenant", "t"),
        AnyOf("user", ("", "u")),
        AnyOf("agent", ("", "a", "b")),
        AnyOf("project", ("",)),
        InRange("valid_until_ts", gt=at),
        InRange("superseded_ts", gt=at),
        InRange("created_ts", lte=at),
        AnyOf("type", ("todo",)),
        AnyOf("entities", ("bridge",)),
        InRange("times", gte=timestamp(CREATED), lte=at),
    )


def test_a_search_up_to_a_date_leaves_undated_memories_out() -> None:
    assert payload_of("t", memory("m1", created_at=None))["times"] == []
    assert InRange("times", gte=LONG_AGO, lte=timestamp(CREATED)) in conditions("t", MemoryFilter(until=CREATED))


def test_a_record_survives_json_and_nonsense_is_no_record() -> None:
    record = StoreRecord.of(profile(), "abc")
    assert StoreRecord.parse(json.loads(json.dumps(record.dump()))) == record
    assert StoreRecord.parse(StoreRecord.of(None, "abc").dump()) == StoreRecord(None, "abc")
    for nonsense in (None, 3, [], {}, {"embedder": {"name": "x"}, "bm25": "y"}, {"embedder": 1, "bm25": ""}):
        assert StoreRecord.parse(nonsense) is None


def test_the_same_recipes_are_compatible() -> None:
    fit = check_compatibility(StoreRecord.of(profile(), "abc"), profile(), "abc")
    assert (fit.dense_usable, fit.fault, fit.notes) == (True, None, ())


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (StoreRecord.of(profile("tiny", 384), "abc"), ("tiny (384", "big (768")),
        (StoreRecord.of(profile("small", 768), "abc"), ("small (768", "big (768")),
        (replace(UNKNOWN_RECORD, bm25="abc"), ("unknown embedder", "big (768")),
        (StoreRecord(None, "abc"), ("no embedder", "big (768")),
    ],
)
def test_vectors_of_another_embedder_are_not_usable(record: StoreRecord, words: tuple[str, ...]) -> None:
    fit = check_compatibility(record, profile("big", 768), "abc")
    assert not fit.dense_usable
    assert fit.fault is not None
    assert all(word in fit.fault for word in (*words, "meeseeks store reindex"))


def test_same_name_and_size_with_other_prefixes_is_another_embedder() -> None:
    fit = check_compatibility(StoreRecord.of(profile(), "abc"), replace(profile(), query_prefix="query: "), "abc")
    assert not fit.dense_usable


def test_another_keyword_recipe_is_a_fault_but_dense_search_stays_on() -> None:
    fit = check_compatibility(StoreRecord.of(profile(), "abc"), profile(), "def")
    assert fit.dense_usable
    assert fit.fault is not None
    assert all(word in fit.fault for word in ("abc", "def", "meeseeks store reindex"))


def test_without_an_embedder_nothing_is_at_fault() -> None:
    fit = check_compatibility(StoreRecord.of(profile(), "abc"), None, "abc")
    assert (fit.dense_usable, fit.fault) == (False, None)
    assert fit.notes


def found(key: str, score: float, vector: tuple[float, ...] | None = None) -> RawHit:
    return RawHit(key, score, payload_of("t", memory(key)), None if vector is None else row(*vector))


def test_equal_scores_are_cut_by_id() -> None:
    points = [found(key, 1.0) for key in ("d", "b", "c", "a")] + [found("z", 2.0)]
    assert [point.point_id for point in best(points, 3)] == ["z", "a", "b"]


def test_a_cut_is_settled_unless_ties_run_on() -> None:
    tied = [1.0] * 6
    assert not settled(tied, limit=4, asked=6)
    assert settled(tied, limit=4, asked=7)
    assert settled([*tied[:5], 0.5], limit=4, asked=6)
    assert settled(tied, limit=4, asked=MOST_ASKED)
    assert settled(tied, limit=0, asked=6)


@pytest.mark.parametrize(
    ("scores", "limit", "number"),
    [([3, 2, 1], 2, 2), ([3, 2, 2, 2, 1], 2, 4), ([2, 2, 2], 1, 3), ([3, 2], 5, 2), ([], 3, 0), ([3, 3], 0, 0)],
)
def test_contenders_are_the_best_and_what_ties_with_the_last_of_them(
    scores: list[float], limit: int, number: int
) -> None:
    assert contenders(scores, limit) == number


def read(*points: RawHit) -> dict[str, Content]:
    return {content.point_id: content for content in contents_of(points)}


def test_hits_have_the_scores_of_their_search_and_the_content_that_was_read_once() -> None:
    chosen = [RawHit("a", 2.0, None, None), RawHit("b", 1.0, None, None), RawHit("gone", 1.0, None, None)]
    assert distinct_ids([chosen, chosen[1:]]) == ["a", "b", "gone"]
    content = read(found("a", 0.0, (1.0, 0.0)), found("b", 0.0))
    first, second = merge(None, chosen, [], content)
    assert (first.memory, first.cosine, first.keyword) == (memory("a"), 2.0, None)
    assert first.vector is content["a"].vector
    assert (second.memory, second.cosine, second.vector) == (memory("b"), 1.0, None)
    assert [(hit.memory.id, hit.cosine) for hit in unscored(chosen, content)] == [("a", None), ("b", None)]


def test_merging_keeps_both_scores_and_fills_the_missing_cosine() -> None:
    both, dense_only, sparse_only = (
        found("a", 0.9, (0.9, 0.1)),
        found("b", 0.8, (0.8, 0.6)),
        found("c", 5.0, (0.6, 0.8)),
    )
    points = [both, dense_only, sparse_only]
    hits = merge((2.0, 0.0), points[:2], [replace(both, score=7.0), sparse_only], read(*points))
    assert [(hit.memory.id, hit.cosine, hit.keyword) for hit in hits] == [
        ("a", 0.9, 7.0),
        ("b", 0.8, None),
        ("c", pytest.approx(0.6), 5.0),
    ]


def test_merging_without_a_dense_query_or_vector_leaves_the_cosine_open() -> None:
    for asked, point in ((None, found("c", 5.0, (0.6, 0.8))), ((1.0, 0.0), found("c", 5.0, None))):
        assert merge(asked, [], [point], read(point))[0].cosine is None


def test_an_unreadable_point_does_not_affect_the_others() -> None:
    points = [RawHit("x", 9.0, {"memory": "{"}, None), found("a", 1.0)]
    assert [hit.memory.id for hit in merge(None, points, [], read(*points))] == ["a"]


@pytest.mark.parametrize(
    "vector", [None, (), (1.0,), (0.0, 0.0), (float("nan"), 1.0), (float("inf"), 1.0), (1.0, 1.0, 1.0)]
)
def test_vectors_without_a_direction_are_not_usable(vector: tuple[float, ...] | None) -> None:
    assert usable(vector, 2) is None
    assert usable((3.0, 4.0), 2) == (3.0, 4.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", "grudge"),
        ("importance", "very"),
        ("created_at", "the day before yesterday"),
        ("valid_until", 1e300),
        ("superseded_by", ""),
        ("entities", "Solveig"),
        ("relations", [{"kind": "about"}]),
        ("channel", 7),
        ("context", 7),
        ("cues", [{"origin": "given"}]),
        ("version", 0),
        ("field_of_a_newer_version", {"a": 1}),
    ],
)
def test_a_damaged_field_costs_only_itself(field: str, value: object) -> None:
    whole = memory("m1", "The bell hangs", importance=0.9, source="log", scope={"user": "oscar"})
    row = row_in({"memory": json.dumps(whole.model_dump(mode="json") | {field: value})})
    assert row.damaged == (field,)
    assert (row.memory.id, row.memory.content, row.memory.scope, row.memory.source) == (
        whole.id,
        whole.content,
        whole.scope,
        "log",
    )


@pytest.mark.parametrize("scope", [{"user": 7}, "oscar", None, {"user": "oscar", "group": "a"}, [], {"agent": []}])
def test_a_memory_with_a_damaged_scope_is_shown_to_nobody(scope: object) -> None:
    text = json.dumps(memory("m1").model_dump(mode="json") | {"scope": scope, "importance": "very"})
    with pytest.raises(StoreError):
        row_in({"memory": text})


def test_a_blank_owner_of_a_former_version_still_means_everybody() -> None:
    text = json.dumps(memory("m1").model_dump(mode="json") | {"scope": {"user": "", "agent": " ", "project": "pier"}})
    row = row_in({"memory": text})
    assert (row.memory.scope.model_dump(exclude_none=True), row.damaged) == ({"project": "pier"}, ())


def test_a_listing_counts_damaged_and_unreadable_memories() -> None:
    texts = [memory("m1").model_dump_json(), json.dumps({"id": "m2", "content": "x", "type": "grudge"}), "{"]
    points = [RawHit(str(place), 0.0, {"memory": text, "tenant": "t"}, None) for place, text in enumerate(texts)]
    listing = listing_of(points, None)
    assert ([entry.memory.id for entry in listing.entries], listing.damaged, listing.unreadable) == (["m1", "m2"], 1, 1)
