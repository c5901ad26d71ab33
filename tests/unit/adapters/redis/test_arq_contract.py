"""The internals of arq that the worker relies on."""

import inspect
import json
from importlib.metadata import version

import arq.constants
import pytest
from arq.jobs import DeserializationError, deserialize_job_raw
from arq.worker import Worker

from hooks.protocol import wire
from worker.adapters.redis.job_worker import MeeseeksWorker, load_job
from worker.domain.deadline import Deadline
from worker.domain.operation import JsonObject, Operation


def parameters(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_version_is_the_reviewed_one() -> None:
    assert version("arq").startswith("0.28.")


def test_overridden_and_called_methods_have_the_expected_signatures() -> None:
    assert parameters(Worker.main) == ["self"]
    assert parameters(Worker.run) == ["self"]
    assert parameters(Worker.close) == ["self"]
    assert parameters(Worker.run_job) == ["self", "job_id", "score"]
    assert parameters(Worker.finish_failed_job) == ["self", "job_id", "result_data"]
    assert parameters(Worker.finish_job)[:3] == ["self", "job_id", "finish"]
    for name in ("run_job", "finish_job", "finish_failed_job", "main", "close"):
        assert inspect.iscoroutinefunction(getattr(Worker, name))


def test_nothing_of_arqs_loop_is_overridden_by_accident() -> None:
    own = {name for name in vars(MeeseeksWorker) if not name.startswith("__")}
    assert own & set(vars(Worker)) == {"run", "main", "close", "finish_job", "finish_failed_job"}


def test_key_names_are_arqs_own() -> None:
    assert arq.constants.job_key_prefix == wire.JOB_PREFIX
    assert arq.constants.in_progress_key_prefix == wire.IN_PROGRESS_PREFIX
    assert arq.constants.retry_key_prefix == "arq:retry:"


async def test_used_attributes_exist_with_the_expected_meaning() -> None:
    async def run(request: JsonObject, deadline: Deadline) -> JsonObject:
        return request

    handler = Operation("op", JsonObject, JsonObject).bind(run)
    worker = MeeseeksWorker({"op": handler}, "unix:///nowhere", handle_signals=False)
    assert (worker.tasks, worker.ctx, worker.main_task, worker.allow_pick_jobs) == ({}, {}, None, True)
    assert worker.in_progress_timeout_s > wire.MAX_BUDGET_MS / 1000
    assert (worker.max_tries, worker.retry_jobs, worker.keep_result_s) == (1, False, 0)
    assert list(worker.functions) == ["op"]
    await worker.close()


@pytest.mark.parametrize(
    "changed",
    [{"f": ["inject"]}, {"f": None}, {"a": "x"}, {"k": ["x"]}, {"et": "now"}, {"t": "x"}, {"et": None}],
)
def test_what_is_no_job_cannot_be_read(changed: dict[str, object]) -> None:
    job = {"t": None, "f": "inject", "a": [], "k": {}, "et": 1}
    assert deserialize_job_raw(json.dumps(job).encode(), deserializer=load_job)[0] == "inject"
    with pytest.raises(DeserializationError):
        deserialize_job_raw(json.dumps(job | changed).encode(), deserializer=load_job)


@pytest.mark.parametrize("raw", [b"[]", b"3", b"{", b"", b"\xff"])
def test_what_is_no_object_is_no_job(raw: bytes) -> None:
    with pytest.raises(DeserializationError):
        deserialize_job_raw(raw, deserializer=load_job)
