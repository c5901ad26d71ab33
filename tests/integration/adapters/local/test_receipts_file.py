"""Receipts in files shared by several processes."""

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hooks.contract import Engine, InjectionRequest, Outcome, Reason, Scope
from tests.support.receipts import showing
from worker.adapters.local import receipts as file_receipts
from worker.adapters.local.receipts import FileReceipts
from worker.domain.errors import BadCursor, NotFound
from worker.domain.receipt import Receipt, turn_of
from worker.receipts.search import ReceiptFilter, find_receipts, find_summaries
from worker.text.file_names import file_name_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def receipt(name: str, tenant: str = "default", **fields: object) -> Receipt:
    request = InjectionRequest(session_id="s", message="hello", scope=Scope(tenant=tenant), turn_id=f"turn-{name}")
    plain = {"id": name, "at": START, "request": request, "outcome": Outcome.INJECTED}
    return Receipt.model_validate({**plain, **fields})


def aged(folder: Path, name: str, seconds: float) -> None:
    """Backdate a receipt by some seconds."""
    (path,) = folder.rglob(f"{name}.json")
    at = path.stat().st_mtime - seconds
    os.utime(path, (at, at))


async def test_newest_first_page_by_page(tmp_path: Path) -> None:
    receipts = FileReceipts(tmp_path)
    for number in range(5):
        await receipts.write(receipt(f"r{number}"))
        aged(tmp_path, f"r{number}", 10.0 - number)
    first, last = await receipts.recent("default", 3), await receipts.recent("default", 3, offset=3)
    assert ([one.id for one in first.receipts], first.end) == (["r4", "r3", "r2"], False)
    assert ([one.id for one in last.receipts], last.end) == (["r1", "r0"], True)
    assert (await receipts.recent("nobody", 3)).end


async def test_lines_page_by_page_and_by_words(tmp_path: Path) -> None:
    receipts = FileReceipts(tmp_path)
    for number in range(5):
        await receipts.write(receipt(f"r{number}"))
        aged(tmp_path, f"r{number}", 10.0 - number)
    first = await receipts.summaries("default", 3)
    last = await receipts.summaries("default", 3, after=first.cursor)
    assert [one.id for page in (first, last) for one in page.summaries] == ["r4", "r3", "r2", "r1", "r0"]
    assert last.cursor is None
    with pytest.raises(BadCursor):
        await receipts.summaries("default", 3, after="unknown")
    assert await receipts.beginning("default", "r1") == ["r1"]
    for words, count in (("HELLO", 5), ("hello nobody", 0)):
        found = await find_summaries(receipts, "default", ReceiptFilter(words=words), 50, None)
        assert len(found.summaries) == count


async def test_ids_are_found_by_their_beginning_also_those_that_are_no_file_names(tmp_path: Path) -> None:
    receipts = FileReceipts(tmp_path)
    for age, name in enumerate(("ab", "a/b 1", "a/b 2", "b", "a" * 200)):
        await receipts.write(receipt(name))
        aged(tmp_path, file_name_of(name), float(age))
    assert await receipts.beginning("default", "a") == ["ab", "a/b 1", "a/b 2", "a" * 200]
    assert await receipts.beginning("default", "a/") == ["a/b 1", "a/b 2"]
    assert await receipts.beginning("default", "a_") == []
    next(tmp_path.rglob("ab.json")).write_text("{", encoding="utf-8")
    assert await receipts.beginning("default", "ab") == []


async def test_a_tenant_sees_its_own_only(tmp_path: Path) -> None:
    receipts = FileReceipts(tmp_path)
    for tenant in ("a b", "a_b", "..", "a/b", "x" * 400):
        await receipts.write(receipt("r", tenant, elapsed_ms=len(tenant)))
    for tenant in ("a b", "a_b", "..", "a/b", "x" * 400):
        assert (await receipts.read(tenant, "r")).request.scope.tenant == tenant
    assert not list(tmp_path.parent.glob("*.json"))
    with pytest.raises(NotFound, match="nothing"):
        await receipts.read("a b", "nothing")


async def test_the_oldest_are_deleted_by_number_and_by_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_receipts, "KEPT", 3)
    receipts = FileReceipts(tmp_path, ttl_s=60)
    for number in range(4):
        await receipts.write(receipt(f"r{number}"))
        aged(tmp_path, f"r{number}", 9.0 - number)
    assert [one.id for one in (await receipts.recent("default", 9)).receipts] == ["r3", "r2", "r1"]
    aged(tmp_path, "r2", 100.0)
    await receipts.write(receipt("r4"))
    assert [one.id for one in (await receipts.recent("default", 9)).receipts] == ["r4", "r3", "r1"]


async def test_texts_of_deleted_memories_are_erased_and_the_age_stays(tmp_path: Path) -> None:
    receipts = FileReceipts(tmp_path)
    await receipts.write(showing(1, "m1", "m2"))
    await receipts.write(showing(2, "m2"))
    aged(tmp_path, "r1", 90.0)
    before = (next(tmp_path.rglob("r1.json"))).stat().st_mtime_ns
    assert await receipts.erase("default", {"m1": datetime.now(UTC)}) == 1
    assert await receipts.erase("default", {"m2": datetime.now(UTC) - timedelta(minutes=1)}) == 1, "only the older one"
    assert "text of" not in next(tmp_path.rglob("r1.json")).read_text()
    assert (next(tmp_path.rglob("r1.json"))).stat().st_mtime_ns == before
    assert (await receipts.read("default", "r2")).block == "text of m2"
    assert await receipts.erase("nobody", {"m1": datetime.now(UTC)}) == 0


async def test_a_turn_is_found(tmp_path: Path) -> None:
    receipts = FileReceipts(tmp_path)
    for name in ("a", "b"):
        await receipts.write(receipt(name))
    assert [one.id for one in await receipts.of_turn(turn_of(receipt("b").request))] == ["b"]


def test_services_can_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes delete files that others read; reads must neither fail nor return a partial receipt."""
    monkeypatch.setattr(file_receipts, "KEPT", 2)

    def work(worker: int) -> None:
        for number in range(60):
            FileReceipts(tmp_path)._write(receipt(f"w{worker}-{number}"))
            FileReceipts(tmp_path)._recent("default", 10, 0)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert len(list(tmp_path.rglob("*.json"))) <= 2 + 6
    assert not list(tmp_path.rglob("*.part"))


async def test_receipts_are_found_by_what_came_of_them(tmp_path: Path) -> None:
    receipts = FileReceipts(tmp_path)
    for number in range(120):
        await receipts.write(receipt(f"r{number}", at=START + timedelta(hours=number)))
        aged(tmp_path, f"r{number}", 1000.0 - number)
    special = {"outcome": Outcome.NONE_RELEVANT, "reason": Reason.MODEL_TIMEOUT, "engine": Engine.LLM, "degraded": True}
    await receipts.write(receipt("odd", at=START, **special))
    aged(tmp_path, "odd", 5000.0)

    async def found(limit: int = 200, **wanted: object) -> list[str]:
        where = ReceiptFilter.model_validate(wanted)
        return [one.id for one in await find_receipts(receipts, "default", where, limit)]

    for wanted in ({"degraded": True}, {"reason": "model_timeout"}, {"engine": "llm"}, {"outcome": "none_relevant"}):
        assert await found(**wanted) == ["odd"]
    assert await found(since=START + timedelta(hours=118)) == ["r119", "r118"]
    assert await found(since=START + timedelta(hours=117), until=START + timedelta(hours=118)) == ["r118", "r117"]
    day = [f"r{number}" for number in range(120) if (START + timedelta(hours=number)).date() == START.date()]
    assert await found(until=START.date().isoformat()) == [*reversed(day), "odd"], "a day is meant whole"
    assert await found(limit=2) == ["r119", "r118"]
    assert len(await found()) == 121
    assert await found(session_id="another") == []
