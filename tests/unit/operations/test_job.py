"""The wrapper around handlers: decoding, deadlines, errors and encoding."""

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
from worker.domain.operation import AnyHandler, JsonObject, Operation, Undelivered
from worker.injection.capacity import Capacity
from worker.operations.job import answer, job_function


class Channel:
    """Records answers; every job was enqueued `age` seconds ago."""

    def __init__(self, age: float = 0.0) -> None:
        self.age = age
        self.sent: list[dict[str, Any]] = []

    def enqueued_at(self, job_id: str) -> float:
        return time.monotonic() - self.age

    async def send(self, job_id: str, answer: bytes) -> None:
        self.sent.append({"to": job_id, **json.loads(answer.decode("ascii"))})


ANY = Operation("any", JsonObject, JsonObject)


@ANY.bind
async def echo(request: JsonObject, deadline: Deadline) -> Undelivered[JsonObject]:
    return Undelivered(JsonObject({"payload": request.root, "left": deadline.remaining()}), ("key", "turn"))


def failing(error: Exception) -> AnyHandler:
    async def run(request: JsonObject, deadline: Deadline) -> JsonObject:
        raise error

    return ANY.bind(run)


async def answered(handler: AnyHandler, payload: object = None, budget: float = 1.0) -> dict[str, Any]:
    raw = await answer(handler, {} if payload is None else payload, Deadline.after(budget), budget, Capacity())
    return dict(json.loads(raw.decode("ascii")))


async def test_an_answer_contains_result_and_commit() -> None:
    channel = Channel()
    await job_function(echo, channel, Capacity())({"job_id": "j"}, payload={"a": 1}, budget_ms=1000)
    (sent,) = channel.sent
    assert sent["to"] == "j"
    assert sent["commit"] == ["key", "turn"]
    assert sent["ok"]["payload"] == {"a": 1}


async def test_time_in_the_queue_counts_and_a_reserve_is_kept() -> None:
    channel = Channel(age=0.4)
    await job_function(echo, channel, Capacity())({"job_id": "j"}, payload={}, budget_ms=1000)
    assert 0.4 < channel.sent[0]["ok"]["left"] <= 0.5


async def test_a_job_whose_deadline_has_passed_is_not_run() -> None:
    channel = Channel(age=1.1)
    await job_function(failing(AssertionError()), channel, Capacity())({"job_id": "j"}, payload={}, budget_ms=1000)
    assert channel.sent == []


@pytest.mark.parametrize("budget_ms", [None, "soon", -1, True])
async def test_a_job_without_a_valid_budget_gets_the_default(budget_ms: object) -> None:
    channel = Channel()
    await job_function(echo, channel, Capacity())({"job_id": "j"}, payload={}, budget_ms=budget_ms)
    assert 2.5 < channel.sent[0]["ok"]["left"] <= 2.85


async def test_budgets_are_bounded() -> None:
    channel = Channel()
    await job_function(echo, channel, Capacity())({"job_id": "j"}, payload={}, budget_ms=10**12)
    assert 59 < channel.sent[0]["ok"]["left"] < 60


class Optional(BaseModel):
    name: str
    note: str | None = None


@pytest.mark.parametrize(("omit_unset", "body"), [(False, {"name": "n", "note": None}), (True, {"name": "n"})])
async def test_unset_fields_are_sent_unless_the_operation_omits_them(omit_unset: bool, body: dict[str, Any]) -> None:
    @Operation("optional", Optional, Optional, omit_unset=omit_unset).bind
    async def same(request: Optional, deadline: Deadline) -> Optional:
        return request

    assert (await answered(same, {"name": "n"}))["ok"] == body
    assert (await answered(same, {"name": 7}))["error"]["message"].startswith("name: ")


async def test_a_hanging_handler_is_cancelled_before_the_deadline() -> None:
    @ANY.bind
    async def hang(request: JsonObject, deadline: Deadline) -> JsonObject:
        await asyncio.Event().wait()
        raise AssertionError

    deadline = Deadline.after(1.0)
    raw = await answer(hang, {}, deadline, 1.0, Capacity())
    assert json.loads(raw)["error"]["reason"] == "deadline"
    assert deadline.remaining() > 0


async def test_a_handler_that_uses_all_its_time_still_answers() -> None:
    @ANY.bind
    async def punctual(request: JsonObject, deadline: Deadline) -> JsonObject:
        await asyncio.sleep(deadline.remaining())
        return JsonObject({"done": True})

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
    found = (await answered(failing(invalid())))["error"]
    assert found["reason"] == "bad_request"
    assert found["message"].startswith("number: ")
    assert "private" not in found["message"]


async def test_a_crash_is_answered_without_its_message() -> None:
    with capture_logs() as lines:
        found = await answered(failing(ZeroDivisionError("private words")))
    assert found["error"] == {"reason": "internal", "message": "ZeroDivisionError"}
    assert [line["event"] for line in lines] == ["job_crashed"]
    assert "private" not in str(lines)


class Number(BaseModel):
    value: float


@pytest.mark.parametrize("result", [JsonObject({"x": object()}), Number(value=float("nan"))])
async def test_a_result_that_is_not_json_is_a_crash(result: BaseModel) -> None:
    async def odd(request: JsonObject, deadline: Deadline) -> BaseModel:
        return result

    assert (await answered(Operation("odd", JsonObject, BaseModel).bind(odd)))["error"]["reason"] == "internal"


@pytest.mark.parametrize("payload", ["text", 7, [1]])
async def test_only_objects_are_payloads(payload: object) -> None:
    assert (await answered(echo, payload))["error"]["reason"] == "bad_request"


async def test_lone_surrogates_are_replaced_in_requests_and_results() -> None:
    seen: list[dict[str, Any]] = []

    @ANY.bind
    async def keep(request: JsonObject, deadline: Deadline) -> JsonObject:
        seen.append(request.root)
        return JsonObject({"text": ["\udfff"]})

    found = await answered(keep, {"a\ud800": ["b\ud800", {"c": "\ud83d\ude00"}]})
    assert seen == [{"a\ufffd": ["b\ufffd", {"c": "\U0001f600"}]}]
    assert found["ok"] == {"text": ["\ufffd"]}


async def test_a_cancelled_job_stays_cancelled() -> None:
    with pytest.raises(asyncio.CancelledError):
        await answered(failing(asyncio.CancelledError()))  # type: ignore[arg-type]
