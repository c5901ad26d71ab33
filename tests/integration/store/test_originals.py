"""Shown memories that are saved again: the original stays, with its date, and no copy is made."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import BlockFormat
from tests.support.embedders import HashingEmbedder
from tests.support.service import NOW, Service, open_service
from worker.domain.errors import EmbedderError
from worker.domain.memory import Memory
from worker.transfer.entries import memory_from

TYLER = "Tyler works at Anthropic building Nexus"
LONG = "The north pump needs priming with two litres of water before each start, and the valve must stay open after it"
NOTED = datetime(2026, 2, 1, 9, 30, tzinfo=UTC)


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture
async def service(tmp_path: Path, embedder: HashingEmbedder) -> AsyncIterator[Service]:
    async with open_service(tmp_path, embedder=embedder, max_item_chars=80) as opened:
        yield opened


async def save(service: Service, *raw: dict[str, Any]) -> Any:
    return await service.memory_service.put("t1", [memory_from(fields, None) for fields in raw], now=NOW)


async def everything(service: Service) -> list[Memory]:
    page = await service.memory_service.page("t1", limit=100, cursor=None)
    return sorted(page.memories, key=lambda memory: memory.id)


async def original(service: Service, **fields: Any) -> None:
    await save(service, {"id": "o1", "content": TYLER, "created_at": NOTED, **fields})


@pytest.mark.parametrize("again_id", [None, "b1"])
@pytest.mark.parametrize(
    "line",
    [
        TYLER,
        f"{TYLER} (2026-02-01)",
        f"{TYLER} (2026-01-31)",  # as shown west of the Atlantic
        f"- {TYLER} (2026-02-01)",
        f"[Fact] {TYLER} (2026-02-01)",
        f"{TYLER} (2026-02-01, no longer holds)",
    ],
)
async def test_shown_line_keeps_the_original(service: Service, line: str, again_id: str | None) -> None:
    await original(service)
    report = await save(service, {"content": line} | ({"id": again_id} if again_id else {}))
    assert (report.created, report.unchanged) == ((), ("o1",))
    (kept,) = await everything(service)
    assert (kept.id, kept.content, kept.created_at, kept.version) == ("o1", TYLER, NOTED, 1)


@pytest.mark.parametrize("style", list(BlockFormat))
async def test_every_line_of_a_block_keeps_its_original(service: Service, style: BlockFormat) -> None:
    await original(service)
    await save(service, {"id": "o2", "content": f"{LONG}\nand closed at night", "type": "todo", "created_at": NOTED})
    result = await service.ask("Tyler builds Nexus; priming the north pump with water", render={"format": style})
    lines = [
        line
        for line in (result.text or "").splitlines()
        if line and line[1:].split("]")[0] != "Relevant to this message"
    ]
    assert len(lines) == len(result.items) == 2
    report = await save(service, *({"content": line} for line in lines))
    assert (report.created, sorted(report.unchanged)) == ((), ["o1", "o2"])


async def test_while_the_embedder_is_down_words_find_the_original(service: Service, embedder: HashingEmbedder) -> None:
    await original(service)
    embedder.fault = EmbedderError("down")
    assert (await save(service, {"content": f"{TYLER} (2026-02-01)"})).unchanged == ("o1",)


@pytest.mark.parametrize(
    "other",
    [
        {"content": f"{TYLER} (2026-02-02)"},
        {"content": f"{TYLER} (2026-02-31)"},
        {"content": f"{TYLER} now"},
        {"content": TYLER, "occurred_at": "2026-03-01"},
        {"id": "b1", "content": TYLER, "created_at": "2026-02-01T11:00:00Z"},
        {"id": "b1", "content": TYLER, "created_at": None},
    ],
)
async def test_another_day_or_other_words_are_another_memory(service: Service, other: dict[str, Any]) -> None:
    await original(service)
    assert len((await save(service, other)).created) == 1


async def test_a_statement_that_is_true_again_is_new(service: Service) -> None:
    await original(service)
    moved = {"id": "o2", "content": "Tyler left Anthropic", "relations": [{"kind": "supersedes", "target": "o1"}]}
    await save(service, moved)
    assert (await save(service, {"id": "b1", "content": TYLER})).created == ("b1",)
    assert (await save(service, {"id": "b2", "content": f"{TYLER} (2026-02-01, no longer holds)"})).unchanged == ("o1",)


async def test_an_original_that_its_owner_cannot_see_is_not_used(service: Service) -> None:
    await original(service, scope={"user": "ana"})
    assert len((await save(service, {"content": TYLER, "scope": {"user": "ben"}})).created) == 1
    assert len((await save(service, {"content": TYLER})).created) == 1
    assert (await save(service, {"content": f"{TYLER} (2026-02-01)", "scope": {"user": "ana"}})).unchanged == ("o1",)


async def test_a_shared_original_serves_everybody(service: Service) -> None:
    await original(service)
    assert (await save(service, {"content": TYLER, "scope": {"user": "ben"}})).unchanged == ("o1",)


async def test_what_a_repeated_line_replaces_is_superseded_by_the_original(service: Service) -> None:
    await original(service)
    await save(service, {"id": "o2", "content": "Tyler works at a bakery"})
    again = {"content": TYLER, "relations": [{"kind": "supersedes", "target": "o2"}]}
    assert (await save(service, again)).updated == ("o1",)
    first, second = await everything(service)
    assert (first.created_at, second.superseded_by) == (NOTED, "o1")


async def test_relations_to_a_repeated_line_point_at_the_original(service: Service) -> None:
    await original(service)
    later = {"id": "b2", "content": "Tyler left", "relations": [{"kind": "supersedes", "target": "b1"}]}
    await save(service, {"id": "b1", "content": TYLER}, later)
    assert [(one.id, one.superseded_by) for one in await everything(service)] == [("b2", None), ("o1", "b2")]


async def test_a_dump_with_equal_texts_keeps_all_of_them(service: Service) -> None:
    runs = [
        {"id": f"r{day}", "content": "Ran five kilometres", "created_at": f"2026-01-0{day}T07:00:00Z"} for day in (1, 2)
    ]
    await save(service, *runs)
    assert len((await save(service, {**runs[0], "id": "r3"})).created) == 1
