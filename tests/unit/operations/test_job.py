"""The wrapper of jobs: deadlines, errors that become answers, and text that is always valid."""

import asyncio
import json
import time
from typing import Any

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from hooks.contract import Reason
from worker.domain import errors
from worker.domain.deadline import Deadline
from worker.domain.operation import Operation, OperationAnswer
from worker.operations.job import answer, job_function


class Channel:
    """A way back that remembers; every job was put `age` seconds ago."""

    def __init__(self, age: float = 0.0) -> None:
        self.age = age
        self.sent: list[dict[str, Any]] = []

    def enqueued_at(self, job_id: str) -> float:
        return time.monotonic() - self.age

    async def send(self, job_id: str, answer: bytes) -> None:
        self.sent.append({"to": job_id, **json.loads(answer.decode("ascii"))})


async def echo(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
    return OperationAnswer({"payload": payload, "left": deadline.remaining()}, commit=("key", "turn"))


def failing(error: Exception) -> Operation:
    async def run(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        raise error

    return run


async def answered(operation: Operation, payload: object = None, budget: float = 1.0) -> dict[str, Any]:
    raw = await answer(operation, {} if payload is None else payload, Deadline.after(budget), budget)
    return dict(json.loads(raw.decode("ascii")))


async def test_the_answer_carries_result_and_commit() -> None:
    channel = Channel()
    await job_function(echo, channel)({"job_id": "j"}, payload={"a": 1}, budget_ms=1000)
    (sent,) = channel.sent
    assert sent["to"] == "j"
    assert sent["commit"] == ["key", "turn"]
    assert sent["ok"]["payload"] == {"a": 1}


async def test_time_in_the_queue_counts_and_a_reserve_is_kept() -> None:
    channel = Channel(age=0.4)
    await job_function(echo, channel)({"job_id": "j"}, payload={}, budget_ms=1000)
    assert 0.4 < channel.sent[0]["ok"]["left"] <= 0.5


async def test_a_job_whose_deadline_has_passed_is_not_run() -> None:
    channel = Channel(age=1.1)
    await job_function(failing(AssertionError()), channel)({"job_id": "j"}, payload={}, budget_ms=1000)
    assert channel.sent == []


@pytest.mark.parametrize("budget_ms", [None, "soon", -1, True])
async def test_a_job_without_a_budget_gets_the_default(budget_ms: object) -> None:
    channel = Channel()
    await job_function(echo, channel)({"job_id": "j"}, payload={}, budget_ms=budget_ms)
    assert 2.5 < channel.sent[0]["ok"]["left"] <= 2.85


async def test_budgets_are_bounded() -> None:
    channel = Channel()
    await job_function(echo, channel)({"job_id": "j"}, payload={}, budget_ms=10**12)
    assert 59 < channel.sent[0]["ok"]["left"] < 60


async def test_an_operation_that_never_ends_is_cut_off_before_the_deadline() -> None:
    async def hang(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        await asyncio.Event().wait()
        raise AssertionError

    deadline = Deadline.after(1.0)
    raw = await answer(hang, {}, deadline, 1.0)
    assert json.loads(raw)["error"]["reason"] == "deadline"
    assert deadline.remaining() > 0


async def test_an_operation_that_uses_all_of_its_time_still_answers() -> None:
    async def punctual(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        await asyncio.sleep(deadline.remaining())
        return OperationAnswer({"done": True})

    assert (await answered(punctual))["ok"] == {"done": True}


class Strict(BaseModel):
    number: int


def invalid() -> Exception:
    with pytest.raises(ValueError, match="number") as caught:
        Strict.model_validate({"number": "private words"})
    return caught.value


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.StoreError("x"), "store_unavailable"),
        (errors.StoreLocked("x"), "store_unavailable"),
        (errors.BadCursor("x"), "bad_request"),
        (errors.StoreLate("x"), "deadline"),
        (errors.EmbedderError("x"), "embedder_unavailable"),
        (errors.ModelError(Reason.MODEL_RATE_LIMITED, "x"), "model_rate_limited"),
        (errors.QueueError(Reason.QUEUE_UNAVAILABLE, "x"), "queue_unavailable"),
        (errors.MemoryRejected("x"), "bad_request"),
        (errors.SettingsError("x"), "bad_request"),
        (errors.NotFound("x"), "not_found"),
        (errors.OperationError(Reason.BUSY, "x"), "busy"),
        (errors.PromptError("x"), "internal"),
        (TimeoutError("x"), "deadline"),
    ],
)
async def test_errors_become_reasons(error: Exception, reason: str) -> None:
    assert (await answered(failing(error)))["error"] == {"reason": reason, "message": "x"}


async def test_a_validation_error_names_the_field_and_not_the_input() -> None:
    told = (await answered(failing(invalid())))["error"]
    assert told["reason"] == "bad_request"
    assert told["message"].startswith("number: ")
    assert "private" not in told["message"]


async def test_a_crash_is_answered_and_its_text_kept_to_itself() -> None:
    with capture_logs() as lines:
        told = await answered(failing(ZeroDivisionError("private words")))
    assert told["error"] == {"reason": "internal", "message": "ZeroDivisionError"}
    assert [line["event"] for line in lines] == ["job_crashed"]
    assert "private" not in str(lines)


@pytest.mark.parametrize("body", [{"x": object()}, {"x": float("nan")}])
async def test_a_result_that_is_not_json_is_a_crash(body: dict[str, Any]) -> None:
    async def odd(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        return OperationAnswer(body)

    assert (await answered(odd))["error"]["reason"] == "internal"


@pytest.mark.parametrize("payload", ["text", 7, [1]])
async def test_only_objects_are_payloads(payload: object) -> None:
    assert (await answered(echo, payload))["error"]["reason"] == "bad_request"


async def test_surrogates_are_cleaned_on_both_ways() -> None:
    seen: list[dict[str, Any]] = []

    async def keep(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        seen.append(payload)
        return OperationAnswer({"text": ["\udfff"]})

    told = await answered(keep, {"a\ud800": ["b\ud800", {"c": "\ud83d\ude00"}]})
    assert seen == [{"a\ufffd": ["b\ufffd", {"c": "\U0001f600"}]}]
    assert told["ok"] == {"text": ["\ufffd"]}


async def test_a_cancelled_job_stays_cancelled() -> None:
    with pytest.raises(asyncio.CancelledError):
        await answered(failing(asyncio.CancelledError()))  # type: ignore[arg-type]
