"""Listing memories on the real store: words in the text, what a scope sees, the newest first."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import NOW, Service, fact, open_service
from worker.domain.deadline import Deadline
from worker.domain.errors import BadCursor, OperationError
from worker.operations.listing import ListingOperations
from worker.operations.requests import ExportRequest
from worker.settings.injection import InjectionConfig


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with open_service(tmp_path, embedder=None) as opened:
        yield opened


async def listed(service: Service, **fields: Any) -> tuple[list[str], str | None]:
    operations = ListingOperations(
        service.memory_service, lambda _: InjectionConfig(shared_users=("team",)), lambda: NOW
    )
    page = await operations.export(ExportRequest.model_validate({"tenant": "t1", **fields}), Deadline.after(10))
    return [memory.id for memory in page.memories], page.cursor


async def all_listed(service: Service, **fields: Any) -> list[str]:
    found, cursor = await listed(service, **fields)
    while cursor is not None:
        more, cursor = await listed(service, **fields, cursor=cursor)
        assert len(more) <= fields["limit"]
        found += more
    return found


async def test_only_memories_with_all_words_are_listed_each_once(service: Service) -> None:
    everything = [fact(f"m{n}", f"Note {n} on {'Billing' if n % 3 == 0 else 'shipping'}") for n in range(450)]
    await service.put([*everything, fact("café", "Décidé au Cafe\u0301 Noir", entities=["Zoë Billing"])])
    expected = sorted([f"m{n}" for n in range(0, 450, 3)])
    for limit in (1, 7, 200):
        assert sorted(await all_listed(service, words="BILLING note", limit=limit)) == expected
    assert sorted(await all_listed(service, words="billing", limit=50)) == sorted([*expected, "café"])
    assert await all_listed(service, words="decide cafe", limit=5) == ["café"]
    assert await all_listed(service, words="nothing like it", limit=5) == []


async def test_words_go_with_other_filters(service: Service) -> None:
    await service.put(
        [
            fact("a", "The red gate", scope={"user": "ada"}),
            fact("b", "The red gate is open", type="todo"),
            fact("c", "The red gate is a gate", scope={"agent": "scout"}),
        ]
    )
    assert await all_listed(service, words="gate", user="ada", limit=5) == ["a"]
    assert await all_listed(service, words="gate", agent="scout", limit=5) == ["c"]
    assert await all_listed(service, words="gate", types=["todo"], limit=5) == ["b"]


@pytest.mark.parametrize("cursor", ["x", "1e3.", "-1.", "99999.", "0.not-a-point", "."])
async def test_an_unknown_cursor_is_refused(service: Service, cursor: str) -> None:
    with pytest.raises(BadCursor, match="use the cursor of the previous page"):
        await listed(service, words="gate", cursor=cursor)


async def test_a_scope_lists_what_it_sees_the_newest_first(service: Service) -> None:
    await service.put(
        [
            fact("old", "Old", created_at="2025-01-01T00:00:00Z"),
            fact("new", "New", created_at="2026-03-01T00:00:00Z", scope={"user": "ada"}),
            fact("shared", "Shared", created_at="2026-02-01T00:00:00Z", scope={"user": "team"}),
            fact("bob's", "Secret", created_at="2026-03-02T00:00:00Z", scope={"user": "bob"}),
            fact("gone", "Expired", created_at="2026-03-03T00:00:00Z", valid_until="2026-03-04T00:00:00Z"),
        ]
    )
    seen = {"scope": {"tenant": "t1", "user": "ada"}, "newest": True}
    assert (await listed(service, **seen))[0] == ["new", "shared", "old"]
    assert (await listed(service, **seen, limit=1))[0] == ["new"]
    assert (await listed(service, **seen, until="2026-02-15"))[0] == ["shared", "old"]
    assert (await listed(service, newest=True, limit=1))[0] == ["gone"], "without a scope, everything is listed"


async def test_the_newest_first_goes_through_every_memory_once_however_many_are_of_one_time(service: Service) -> None:
    """More memories of one import than the store sorts at a time."""
    times = ["2026-03-03T00:00:00Z", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00.000001Z"]
    everything = [
        fact(f"m{n}", f"Note {n} on {'Billing' if n % 3 else 'shipping'}", created_at=times[min(n % 40, 2)])
        for n in range(700)
    ]
    await service.put([*everything, fact("undated", "From nowhere", created_at=None)])
    for fields in ({}, {"words": "note billing"}):
        found = await all_listed(service, newest=True, limit=90, **fields)
        wanted = [one for one in everything if not fields or "Billing" in one["content"]]
        assert sorted(found) == sorted([one["id"] for one in wanted] + ([] if fields else ["undated"]))
        dates = {one["id"]: one["created_at"] for one in everything} | {"undated": ""}
        order = [("", times[1], times[2], times[0]).index(dates[key]) for key in found]
        assert order == sorted(order, reverse=True)


async def test_the_memories_of_a_project_are_listed(service: Service) -> None:
    await service.put(
        [fact("a", "Ours", scope={"project": "api"}), fact("b", "Others", scope={"project": "web"}), fact("c", "All")]
    )
    assert await all_listed(service, project="api", newest=True, limit=5) == ["a"]
    assert await all_listed(service, project="api", limit=5) == ["a"]


@pytest.mark.parametrize("cursor", ["x", "-1", "1.", "٣", "9" * 10, "t", "t-1", "t" + "9" * 18, "t5.zz"])
async def test_an_unknown_cursor_of_the_newest_is_refused(service: Service, cursor: str) -> None:
    with pytest.raises(BadCursor, match="use the cursor of the previous page"):
        await listed(service, newest=True, cursor=cursor)


async def test_no_half_sorted_list_is_given_out_when_time_is_short(service: Service) -> None:
    await service.put([fact(f"m{n}", f"Note {n}") for n in range(250)])
    operations = ListingOperations(service.memory_service, lambda _: InjectionConfig(), lambda: NOW)
    request = ExportRequest(tenant="t1", words="note", newest=True)
    with pytest.raises(OperationError, match="narrow the list"):
        await operations.export(request, Deadline.after(0.1))
