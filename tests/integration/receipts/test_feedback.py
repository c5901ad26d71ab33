"""What answers used, in a whole service: real store, real embedder, real receipts and counts."""

from pathlib import Path
from typing import Any

import pytest

from hooks.contract import InjectionResult
from hooks.contract.usage import AnswerReport
from tests.support.service import NOW, Service, fact, ids, open_service
from worker.adapters.local.usage import FileUsage
from worker.domain.deadline import Deadline
from worker.domain.errors import NotFound
from worker.domain.usage import Usage
from worker.receipts.answer_usage import AnswerUsage, AnswerUsageParts
from worker.settings.injection import InjectionConfig

HOLD = "Cabin holds in berth now lapse after 12 minutes"
QUESTION = "How long are cabin holds kept before they lapse in berth?"


def feedback(service: Service, folder: Path) -> tuple[AnswerUsage, FileUsage]:
    usage, settings = FileUsage(folder / "usage.json"), InjectionConfig()
    parts = AnswerUsageParts(service.receipts, service.ledger, usage, service.engine, lambda _: settings, lambda: NOW)
    return AnswerUsage(parts), usage


def report(answer: str, **fields: Any) -> AnswerReport:
    return AnswerReport.model_validate({"session_id": "s1", "turn_id": "1", "tenant": "t1", "answer": answer, **fields})


async def asked(service: Service, **fields: Any) -> InjectionResult:
    await service.put([fact("hold", HOLD)])
    result = await service.ask(QUESTION, **fields)
    await service.injection.drain()
    return result


async def test_what_an_answer_used_is_counted_once(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        told, usage = feedback(service, tmp_path)
        assert ids(await asked(service)) == ["hold"]
        first = await told.report(report("const HOLD_MINUTES = 12"), Deadline.after(5))
        again = await told.report(report("const HOLD_MINUTES = 12"), Deadline.after(5))
        assert (first.done, first.injected, first.used, first.counted) == (True, ("hold",), ("hold",), True)
        assert (again.used, again.counted, again.judged_by) == (("hold",), False, "words")
        assert await usage.read_all("t1") == {"hold": Usage(1, 1, NOW, NOW)}
        assert "HOLD_MINUTES" not in (tmp_path / "usage.json").read_text(encoding="utf-8")


async def test_a_block_that_was_not_delivered_counts_for_nothing(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        told, usage = feedback(service, tmp_path)
        result = await asked(service, commit=False)
        assert (await told.report(report("12 minutes"), Deadline.after(5))).injected == ()
        assert await usage.read_all("t1") == {}
        named = await told.report(report("12 minutes", block_id=result.block_id), Deadline.after(5))
        assert named.injected == ("hold",)


@pytest.mark.parametrize("fields", [{"dry_run": True, "commit": False}, {"mode": "off"}])
async def test_what_was_never_meant_to_arrive_is_not_counted(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with open_service(tmp_path) as service:
        told, _ = feedback(service, tmp_path)
        await asked(service, **fields)
        assert (await told.report(report("12 minutes"), Deadline.after(5))).injected == ()


async def test_an_ephemeral_block_counts_though_no_ledger_knows_it(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        told, _ = feedback(service, tmp_path)
        await asked(service, retention="ephemeral")
        assert (await told.report(report("Drinks at noon"), Deadline.after(5))).injected == ("hold",)


async def test_an_unknown_turn_is_not_found(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        told, _ = feedback(service, tmp_path)
        await asked(service)
        for other in ({"turn_id": "2"}, {"session_id": "s2"}, {"tenant": "t2"}, {"agent_id": "other"}):
            with pytest.raises(NotFound, match="no receipt"):
                await told.report(report("12", **other), Deadline.after(5))


async def test_without_texts_in_receipts_the_report_brings_the_message(tmp_path: Path) -> None:
    async with open_service(tmp_path, receipt_keep="numbers") as service:
        told, _ = feedback(service, tmp_path)
        await asked(service)
        with pytest.raises(NotFound, match="message"):
            await told.report(report("after 12 minutes"), Deadline.after(5))
        done = await told.report(report("after 12 minutes", message=QUESTION), Deadline.after(5))
        assert done.used == ("hold",)
