"""Files of other programs and people: nothing is lost in silence, and nothing is seen by more people than before."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from worker.domain.memory import Memory, MemoryType
from worker.transfer.entries import LeftOut, Noted, Rejected, Remark
from worker.transfer.formats import Source

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def read(path: Path, content: Any) -> list[Memory | Remark]:
    text = content if isinstance(content, str) else json.dumps(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return list(Source(path, path.name).entries(now=NOW))


def taken(entries: list[Memory | Remark]) -> list[Memory]:
    return [entry for entry in entries if isinstance(entry, Memory)]


def told(entries: list[Memory | Remark]) -> list[tuple[type[Remark], int, str]]:
    return [(type(entry), entry.line, entry.reason) for entry in entries if isinstance(entry, Remark)]


GRAPH: list[dict[str, Any]] = [
    {
        "type": "entity",
        "name": "quay",
        "entityType": "project",
        "observations": ["Holds lapse after 12 minutes", "The quay is wide"],
    },
    {
        "name": "Berth API",
        "entityType": "thing",
        "_type": "entity",
        "observations": [{"text": "40 calls", "timestamp": "2025-05-06T14:09:36Z"}],
    },
    {"type": "relation", "from": "quay", "to": "Berth API", "relationType": "depends_on"},
    {"type": "entity", "name": "empty", "entityType": "thing", "observations": []},
]


@pytest.mark.parametrize("shape", ["lines", "object"])
def test_a_knowledge_graph_gives_a_memory_per_observation_and_relation(tmp_path: Path, shape: str) -> None:
    lines = "".join(json.dumps(entry) + "\n" for entry in GRAPH)
    whole = json.dumps({"entities": [GRAPH[0], GRAPH[1], GRAPH[3]], "relations": [GRAPH[2]]})
    entries = read(
        tmp_path / ("memory.jsonl" if shape == "lines" else "memory.json"), lines if shape == "lines" else whole
    )
    memories = taken(entries)
    assert sorted(memory.content for memory in memories) == [
        "Berth API: 40 calls",
        "The quay is wide",
        "quay depends on Berth API",
        "quay: Holds lapse after 12 minutes",
    ]
    assert {memory.type for memory in memories} == {MemoryType.FACT}
    dated = next(memory for memory in memories if "40 calls" in memory.content)
    assert (dated.entities, dated.created_at) == (("Berth API",), datetime(2025, 5, 6, 14, 9, 36, tzinfo=UTC))
    assert [kind for kind, _, _ in told(entries)] == [LeftOut]


def test_blocks_of_an_agent_file_belong_to_its_agent(tmp_path: Path) -> None:
    blocks = [
        {"id": "b0", "label": "human", "value": "\nName: Dana\nLikes sailing\n", "limit": 20000, "read_only": False},
        {"id": "b1", "label": "house", "value": "Rent is due on the 3rd", "limit": 1},
    ]
    agents = [{"name": "helper", "block_ids": ["b0", "b1"], "messages": []}, {"name": "other", "block_ids": ["b1"]}]
    entries = read(tmp_path / "helper.af", {"agents": agents, "groups": [], "blocks": blocks, "tools": []})
    human, house = taken(entries)
    assert (human.content, human.context, human.scope.agent) == ("Name: Dana\nLikes sailing", "human", "helper")
    assert (house.content, house.scope.agent) == ("Rent is due on the 3rd", None)
    assert told(entries) == [(LeftOut, 1, "agents: their messages, prompts and tools are no memories")]


def test_a_store_of_langgraph_keeps_whose_it_is(tmp_path: Path) -> None:
    rest = {"created_at": "2024-10-02T17:22:31+00:00", "updated_at": "2024-10-03T00:00:00+00:00"}
    entries = read(
        tmp_path / "store.json",
        [
            {
                "namespace": ["7", "memories"],
                "key": "a",
                "value": {"kind": "M", "content": {"content": "Likes pizza"}},
                **rest,
            },
            {"namespace": ["memories"], "key": "b", "value": {"food_preference": "No shellfish"}, **rest},
            {"namespace": ["org", "7", "x"], "key": "c", "value": {"content": "Whose?"}},
        ],
    )
    pizza, fish = taken(entries)
    assert (pizza.content, pizza.scope.user) == ("Likes pizza", "7")
    assert (fish.content, fish.scope.user) == ("food preference: No shellfish", None)
    assert [(kind, line) for kind, line, _ in told(entries)] == [(Rejected, 1), (Noted, 1)]


def test_other_words_for_a_type_are_facts_and_said(tmp_path: Path) -> None:
    results = [
        {
            "id": "a",
            "text": "Ada works at Kelp",
            "type": "world",
            "entities": ["Ada"],
            "tags": ["career"],
            "metadata": None,
        },
        {"id": "b", "text": "Ada was promoted", "type": "experience", "occurred_start": "2024-03-15T00:00:00Z"},
        {"id": "c", "text": "Use tabs", "type": "Preferences"},
    ]
    entries = read(tmp_path / "r.json", {"results": results})
    assert [memory.type.value for memory in taken(entries)] == ["fact", "fact", "preference"]
    assert taken(entries)[0].entities == ("Ada", "career")
    assert taken(entries)[1].occurred_at == datetime(2024, 3, 15, tzinfo=UTC)
    assert ["stored as fact" in reason for _, _, reason in told(entries)] == [True, True]


@pytest.mark.parametrize(
    ("values", "kind", "word"),
    [
        ({"run_id": "chat-7"}, Rejected, "run_id"),
        ({"user_id": "ada", "metadata": {"thread_id": "7"}}, Rejected, "thread_id"),
        ({"visibility": "private"}, Rejected, "visibility"),
        ({"is_public": False}, Rejected, "is_public"),
        ({"shared_with": ["bo"], "user_id": "ada"}, Rejected, "shared_with"),
        ({"scope": "team"}, Rejected, "scope"),
        ({"group_id": "harbour"}, Rejected, "group_id"),
        ({"conversation": "7"}, Rejected, "conversation"),
        ({"channel": ["a", "b"]}, Rejected, "channel"),
        ({"metadata": {"room": {"id": 1}}}, Rejected, "channel"),
        ({"scope": {"user": ""}}, Rejected, "scope.user"),
        ({"user": {"a": "b"}}, Rejected, "user"),
        ({"project": ["shop", "web"]}, Rejected, "project"),
        ({"expires_at": "soon"}, Rejected, "valid_until"),
        ({"ttl": 60}, Rejected, "ttl"),
        ({"valid_from": "2031-01-01"}, Rejected, "valid_from"),
        ({"is_deleted": True}, LeftOut, "is_deleted"),
        ({"state": "deleted"}, LeftOut, "state"),
        ({"metadata": {"status": "archived"}}, LeftOut, "status"),
        ({"is_active": False}, LeftOut, "is_active"),
        ({"superseded_by": {"x": 1}}, Rejected, "superseded_by"),
    ],
)
def test_what_limits_a_memory_keeps_its_meaning_or_refuses_it(
    tmp_path: Path, values: dict[str, Any], kind: type[Remark], word: str
) -> None:
    entries = read(tmp_path / "a.jsonl", {"text": "The boat is called Petrel", **values})
    assert not taken(entries)
    ((found, _, reason),) = told(entries)
    assert found is kind
    assert word in reason


@pytest.mark.parametrize(
    ("values", "field", "expected"),
    [
        ({"run_id": None, "user_id": "ada"}, "user", "ada"),
        ({"visibility": "private", "user_id": "ada"}, "user", "ada"),
        ({"visibility": "public", "is_deleted": False, "deleted_at": None, "state": "active"}, "user", None),
        ({"metadata": {"user_id": "ada"}}, "user", "ada"),
        ({"project": "[[Harbour rebuild]]"}, "project", "Harbour rebuild"),
        ({"project": ["shop"]}, "project", "shop"),
        ({"group_id": "harbour", "user_id": 17}, "user", "17"),
    ],
)
def test_what_keeps_its_meaning_is_taken(
    tmp_path: Path, values: dict[str, Any], field: str, expected: str | None
) -> None:
    (memory,) = taken(read(tmp_path / "a.jsonl", {"text": "The boat is called Petrel", **values}))
    assert getattr(memory.scope, field) == expected


@pytest.mark.parametrize("values", [{"channel": 5}, {"channel_id": "5"}, {"metadata": {"room_id": ["5"]}}])
def test_where_something_was_said_keeps_its_meaning(tmp_path: Path, values: dict[str, Any]) -> None:
    (memory,) = taken(read(tmp_path / "a.jsonl", {"text": "The boat is called Petrel", **values}))
    assert memory.room == "5"


def test_values_beside_a_list_limit_all_of_it(tmp_path: Path) -> None:
    entries = read(tmp_path / "a.json", {"memories": [{"text": "Gate code is 4471"}], "user_id": "ada", "count": 1})
    assert [memory.scope.user for memory in taken(entries)] == ["ada"]
    assert not taken(read(tmp_path / "b.json", {"memories": ["x"], "run_id": "7"}))


def test_texts_in_lists_and_a_single_object_are_memories(tmp_path: Path) -> None:
    (fact, liking) = taken(read(tmp_path / "a.json", {"facts": ["Tea at four"], "preferences": [{"text": "Use tabs"}]}))
    assert (fact.content, liking.type) == ("Tea at four", MemoryType.PREFERENCE)
    (single,) = taken(read(tmp_path / "b.json", json.dumps({"text": "One", "user": "ada"}, indent=1)))
    assert (single.content, single.scope.user) == ("One", "ada")


def test_unknown_values_are_reported_and_never_refuse_a_text(tmp_path: Path) -> None:
    odd = {"importance": "high", "created_at": "05/08/2025", "version": "9" * 6000, "entities": 7, "relations": "x"}
    more = {"colour": "red", "id": ["x"], "score": 0.3, "metadata": {"mood": "x"}}
    entries = read(tmp_path / "a.jsonl", {"content": "Tea at four", **odd, **more})
    (memory,) = taken(entries)
    assert (memory.importance, memory.created_at, memory.entities) == (0.5, NOW, ())
    named = {reason.split(" ")[0].rstrip(":") for _, _, reason in told(entries)}
    assert named == {*odd, *more} - {"metadata"} | {"mood"}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("August 5, 2025 3:14 PM", "2025-08-05T15:14"),
        ("5 Aug 2025", "2025-08-05T00:00"),
        ("2025/08/05 07:01", "2025-08-05T07:01"),
        ("05.08.2025", "2025-08-05T00:00"),
        ("Tue, 05 Aug 2025 15:14:00 +0200", "2025-08-05T13:14"),
        ("1754400840", "2025-08-05T13:34"),
        ("2025-08-05 15:14:00 UTC", "2025-08-05T15:14"),
    ],
)
def test_dates_as_programs_write_them(tmp_path: Path, written: str, expected: str) -> None:
    text = f'Text,Created,Name\nDeploys on Tuesdays,"{written}",Deploy day\n'
    (memory,) = taken(read(tmp_path / "t.csv", text))
    assert memory.created_at is not None
    assert f"{memory.created_at:%Y-%m-%dT%H:%M}" == expected
    assert memory.context == "Deploy day"


def test_columns_with_usual_names_and_other_meanings(tmp_path: Path) -> None:
    text = "content,category,priority,date,colour\nTea at four,Health,high,2025-08-05,red\nUse tabs,preference,0.9,x,\n"
    entries = read(tmp_path / "t.csv", text)
    tea, tabs = taken(entries)
    assert (tea.entities, tea.type, tea.importance) == (("Health",), MemoryType.FACT, 0.5)
    assert (tabs.type, tabs.importance, tabs.created_at) == (MemoryType.PREFERENCE, 0.9, NOW)
    reasons = [reason for _, _, reason in told(entries)]
    assert reasons[0] == "columns not kept: colour"
    assert any("'Health'" in reason for reason in reasons)
    assert any("'high'" in reason for reason in reasons)


def test_names_of_columns_are_names_of_keys_too(tmp_path: Path) -> None:
    (memory,) = taken(read(tmp_path / "a.jsonl", {"note": "Tea at four", "timestamp": 1754400840, "userId": "ada"}))
    assert (memory.scope.user, memory.created_at) == ("ada", datetime(2025, 8, 5, 13, 34, tzinfo=UTC))


DATES = """# Log

## 2025-08-05 — Vendor call

- Moved to Thursday.

## 2025-08-06: Berth outage

- Lasted 40 minutes.

## 2025-08-07

- 2041-10-11 is the order number of the pump.
- 5551-23-45 is Anna's extension.
- 2025-08-01 Moved the crane.
- 2025-08-02: moved it back.
"""


def test_a_dated_heading_keeps_its_subject_and_numbers_are_no_dates(tmp_path: Path) -> None:
    memories = taken(read(tmp_path / "dates.md", DATES))
    assert [(memory.content, f"{memory.created_at:%m-%d}") for memory in memories] == [
        ("Vendor call: Moved to Thursday.", "08-05"),
        ("Berth outage: Lasted 40 minutes.", "08-06"),
        ("2041-10-11 is the order number of the pump.", "08-07"),
        ("5551-23-45 is Anna's extension.", "08-07"),
        ("Moved the crane.", "08-01"),
        ("Log: moved it back.", "08-02"),
    ]


AGENT = """# Guide

## Commands

```bash
make build
make test
```

## Single test

```make test -k name```

<guide_memory>
@docs/a.md
@docs/b.md
</guide_memory>

@AGENTS.md
@~/.guide/mine.md

- After that.
"""


def test_code_alone_is_kept_under_its_heading_and_imports_are_left_out(tmp_path: Path) -> None:
    entries = read(tmp_path / "CLAUDE.md", AGENT)
    assert [memory.content for memory in taken(entries)] == [
        "Commands:\n```bash\nmake build\nmake test\n```",
        "Single test: ```make test -k name```",
        "After that.",
    ]
    assert told(entries) == [(LeftOut, 14, "an import of another file (2 times)")]


@pytest.mark.parametrize("opening", ["```sh", "~~~", "<!-- note", "<pre>"])
def test_what_is_never_closed_is_reported_and_costs_nothing(tmp_path: Path, opening: str) -> None:
    entries = read(tmp_path / "n.md", f"- Before\n\n{opening}\n\n- After one\n- After two\n")
    assert [memory.content for memory in taken(entries) if "ter" in memory.content] == ["After one", "After two"]
    assert [(kind, line) for kind, line, _ in told(entries)] == [(Noted, 3)]


def test_a_heading_is_context_and_a_type_is_for_its_own_entries(tmp_path: Path) -> None:
    text = "# To do\n\n- Call Ada\n\n## People\n\n- Bo is a vet\n- lives in Oslo\n\n## Team\n- Bo is a vet\n"
    memories = taken(read(tmp_path / "n.md", text))
    assert [(memory.type.value, memory.context, memory.content) for memory in memories] == [
        ("todo", None, "Call Ada"),
        ("fact", "People", "Bo is a vet"),
        ("fact", None, "People: lives in Oslo"),
        ("fact", "Team", "Bo is a vet"),
    ]
    assert len({memory.id for memory in memories}) == 4


@pytest.mark.parametrize(
    ("front", "project", "line"),
    [
        ('project: "[[Harbour rebuild]]"', "Harbour rebuild", None),
        ("project: [[Harbour rebuild]]", "Harbour rebuild", None),
        ("project: [shop]", "shop", None),
        ("project: [shop, web]", None, 4),
        ("user: {a: b}", None, 4),
        ("user: *x", None, 1),
        ("visibility: private", None, 4),
        ("channel: [ops, web]", None, 4),
    ],
)
def test_front_matter_never_changes_who_sees_a_note(
    tmp_path: Path, front: str, project: str | None, line: int | None
) -> None:
    entries = read(tmp_path / "n.md", f"---\n{front}\n---\n- Needs sign-off\n")
    assert [memory.scope.project for memory in taken(entries)] == ([project] if project else [])
    assert [found for kind, found, _ in told(entries) if kind is Rejected] == ([line] if line else [])


@pytest.mark.parametrize(
    ("front", "texts", "line"),
    [
        ('title = "Boat"\nproject = "shop"\ntags = ["sea"]\ndate = 2026-01-31', ["Boat: needs paint"], None),
        ('project = ["shop", "web"]', [], 4),
        ("user = ", [], 1),
        ("mood = ", ["needs paint"], 1),
        (f"x = {'[' * 3000}", ["needs paint"], 1),
    ],
    ids=["read", "two projects", "unclear user", "unclear", "deep"],
)
def test_front_matter_in_toml_is_read(tmp_path: Path, front: str, texts: list[str], line: int | None) -> None:
    entries = read(tmp_path / "n.md", f"+++\n{front}\n+++\n- needs paint\n")
    assert [memory.content for memory in taken(entries)] == texts
    assert [found for kind, found, _ in told(entries) if kind is Rejected] == ([line] if line else [])
    if "date" in front:
        (memory,) = taken(entries)
        assert (memory.scope.project, memory.entities) == ("shop", ("sea",))
        assert memory.created_at == datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize("tag", ["rules", "style_rules"])
def test_a_list_between_tags_is_a_list(tmp_path: Path, tag: str) -> None:
    text = f"# Rules\n\n<{tag}>\n- Use tabs\n- Quote paths\n  - also in tests\n</{tag}>\n\n- After\n"
    entries = read(tmp_path / "CLAUDE.md", text)
    assert [(memory.content, memory.context) for memory in taken(entries)] == [
        ("Use tabs", "Rules"),
        ("Quote paths\n  - also in tests", "Rules"),
        ("After", "Rules"),
    ]


def test_unknown_front_matter_is_reported_once(tmp_path: Path) -> None:
    entries = read(tmp_path / "n.md", "---\ntype: meeting\ndate: 99999-99-99\nmood: calm\n---\n- One\n- Two\n")
    assert [memory.type.value for memory in taken(entries)] == ["fact", "fact"]
    assert [reason.split(" ")[0].rstrip(":") for _, _, reason in told(entries)] == ["type", "created_at", "mood"]
    assert all("2 times" in reason for _, _, reason in told(entries))


def test_plain_texts_and_rules_of_editors_are_read(tmp_path: Path) -> None:
    (memory,) = taken(read(tmp_path / "notes.txt", "Robin is lactose intolerant\n"))
    assert memory.content == "Robin is lactose intolerant"
    entries = read(tmp_path / "style.mdc", "---\ndescription: Style\nglobs: '*.py'\n---\n- Use tabs\n")
    assert [(memory.type.value, memory.content) for memory in taken(entries)] == [("preference", "Use tabs")]


def test_filler_text_is_left_out(tmp_path: Path) -> None:
    entries = read(tmp_path / "a.json", [{"text": "Lorem ipsum dolor"}])
    assert told(entries) == [(LeftOut, 1, "filler text")]


@pytest.mark.parametrize(
    "line",
    [
        *("confidential: true", "shared_with: hana", "isPrivate: true", "sharing: team", "ttl: 60", "valid_from: 2041"),
        *('"owner": hana', "chat-id: 7", "is_public: false"),
    ],
)
@pytest.mark.parametrize(("fence", "broken"), [("---", "broken: ["), ("+++", "broken = [")])
def test_notes_whose_front_matter_is_broken_are_not_shown_to_more_people(
    tmp_path: Path, fence: str, broken: str, line: str
) -> None:
    written = line if fence == "---" else line.replace(":", " =", 1)
    entries = read(tmp_path / "notes.md", f"{fence}\n{written}\n{broken}\n{fence}\n\n- The quay opens at six.\n")
    assert taken(entries) == []
    assert "may say who can see these notes" in told(entries)[0][2]


def test_other_front_matter_that_is_broken_costs_no_note(tmp_path: Path) -> None:
    entries = read(tmp_path / "notes.md", "---\ntitle: Quay\nstatus: [\n---\n\n- The quay opens at six.\n")
    assert [memory.content for memory in taken(entries)] == ["The quay opens at six."]
