"""What answers used, in a whole service: real store, real embedder, real receipts and counts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import InjectionResult
from hooks.usage_contract import AnswerReport
from tests.support.scripted_model import Say, ScriptedModel, Step
from tests.support.service import NOW, Service, fact, ids, open_service
from worker.adapters.local.usage import FileUsage
from worker.domain.deadline import Deadline
from worker.domain.errors import NotFound
from worker.domain.memory import RecallQuery, Visibility
from worker.domain.model_calls import Reason
from worker.domain.timings import Stages
from worker.domain.usage import Usage
from worker.ports.models import ChatModel
from worker.recall.recall import Recall, RecallScope
from worker.receipts.answer_usage import AnswerUsage, AnswerUsageParts
from worker.receipts.usage_by_model import UsageJudge
from worker.settings.injection import InjectionConfig
from worker.triage.prompt_files import default_prompts_dir

HOLD = "Cabin holds in berth now lapse after 12 minutes"
QUESTION = "How long are cabin holds kept before they lapse in berth?"


def feedback(
    service: Service, folder: Path, steps: Sequence[Step] = (), **config: Any
) -> tuple[AnswerUsage, FileUsage]:
    usage, settings = FileUsage(folder / "usage.json"), InjectionConfig.model_validate(config)
    model = ScriptedModel(steps)

    async def open_model(agent_id: str, deadline: Deadline) -> ChatModel:
        return model

    judge = UsageJudge(open_model, default_prompts_dir())
    parts = AnswerUsageParts(
        service.receipts, service.ledger, usage, service.engine, lambda _: settings, lambda: NOW, judge
    )
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
        assert await usage.everything("t1") == {"hold": Usage(1, 1, NOW, NOW)}
        assert "HOLD_MINUTES" not in (tmp_path / "usage.json").read_text(encoding="utf-8")


async def test_a_block_that_was_not_delivered_counts_for_nothing(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        told, usage = feedback(service, tmp_path)
        result = await asked(service, commit=False)
        assert (await told.report(report("12 minutes"), Deadline.after(5))).injected == ()
        assert await usage.everything("t1") == {}
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


async def test_a_model_judges_where_the_settings_say_so(tmp_path: Path) -> None:
    steps = ['{"relevant":[],"sufficient":true}']
    async with open_service(tmp_path) as service:
        told, _ = feedback(service, tmp_path, steps, usage_judge=True)
        await asked(service)
        done = await told.report(report("after 12 minutes"), Deadline.after(5))
        assert (done.used, done.judged_by) == ((), "model")


@pytest.mark.parametrize("step", ["I think so!", Say(error=Reason.MODEL_TIMEOUT), Say("{}", delay=30.0)])
async def test_words_decide_where_the_model_fails(tmp_path: Path, step: Step) -> None:
    async with open_service(tmp_path) as service:
        told, _ = feedback(service, tmp_path, [step], usage_judge=True)
        await asked(service)
        done = await told.report(report("after 12 minutes"), Deadline.after(1.0))
        assert (done.used, done.judged_by) == (("hold",), "words")


async def test_damping_changes_the_order_and_nothing_else(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        usage = FileUsage(tmp_path / "usage.json")
        await service.put(
            [fact("a", HOLD), fact("b", "Cabin holds in berth do not lapse at night, after 12 or before")]
        )
        for number in range(40):
            await usage.count("t1", f"r{number}", {"a": False, "b": True}, NOW)
        recall = Recall(service.engine, service.recall._sparse, service.recall._embedder, usage=usage)

        async def found(damping: float) -> dict[str, tuple[float, float]]:
            config = InjectionConfig(usage_damping=damping)
            scope = RecallScope("t1", Visibility(), NOW)
            recalled = await recall(RecallQuery(QUESTION), scope, config, Deadline.after(5), Stages())
            return {one.memory.id: (one.relevance, one.score) for one in recalled.candidates}

        plain, damped = await found(0.0), await found(1.0)
        assert list(plain) == ["a", "b"]
        assert list(damped) == ["b", "a"]
        assert {key: pair[0] for key, pair in plain.items()} == {key: pair[0] for key, pair in damped.items()}
        assert plain["b"] == damped["b"]
        assert plain["a"][1] - damped["a"][1] == pytest.approx(40 / 45)
