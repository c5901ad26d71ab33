"""Models that are left alone after failures, as the running service knows them and `meeseeks doctor` shows them."""

from pathlib import Path

from hooks.breaker import CircuitBreaker
from tests.support.command_line import command_line
from tests.support.upstream import Mode, Upstream
from worker.bootstrap.core import open_core
from worker.cli.doctor import _paused
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import HEALTH, INJECT, REMEMBER
from worker.settings.injection import Settings

MODEL = "openai/scripted"


async def test_a_model_that_keeps_failing_is_shown_and_so_is_its_return(tmp_path: Path) -> None:
    async with Upstream(mode=Mode.ERROR_500) as upstream:
        said = {
            "MEESEEKS_MODEL": MODEL,
            "MEESEEKS_MODEL_API_BASE": f"{upstream.url}/v1",
            "MEESEEKS_MODEL_API_KEY": "k",
        }
        async with open_core(Settings.load(said, None, data_dir=tmp_path)) as core:
            assert core.model is not None
            breaker = (await core.model.chat.open(MODEL)).breaker
            await core.model.warm()
            breaker.record_success()
            backend = LocalOperationClient(core.operations)
            await backend.call(REMEMBER, {"memory": {"id": "hold", "content": "Cabin holds lapse in 12 minutes"}})
            for number in range(breaker.threshold):
                health = await backend.call(HEALTH, {})
                last = "model_error" if number else None
                assert health["models"] == [
                    {"name": MODEL, "failures": number, "last": last, "paused_s": None, "loading": False}
                ]
                assert list(_paused(health, wrong=True)) == []
                request = {"session_id": f"s{number}", "message": "When do cabin holds lapse?", "deadline_ms": 20_000}
                await backend.call(INJECT, {**request, "mode": "always"}, budget=20.0)
            health = await backend.call(HEALTH, {})
            (state,) = health["models"]
            (shown,) = _paused(health, wrong=True)
            (watched,) = _paused(health, wrong=False)
            breaker.record_success()
            assert list(_paused(await backend.call(HEALTH, {}), wrong=True)) == []
    assert (state["name"], state["failures"], 0 < state["paused_s"] <= breaker.pause) == (MODEL, 5, True)
    assert (shown.name, shown.ok, watched.ok) == ("paused model", False, True)
    assert f"{MODEL} failed 5 times in a row, last with model_error; next attempt in" in shown.detail


def test_how_long_a_breaker_waits() -> None:
    breaker = CircuitBreaker(threshold=2, pause=20.0)
    assert breaker.paused_for(0.0) is None
    for now in (1.0, 2.0):
        breaker.record_failure(now)
    assert [breaker.paused_for(now) for now in (2.0, 12.0, 22.0, 99.0)] == [20.0, 10.0, 0.0, 0.0]
    assert breaker.allow(30.0)
    assert breaker.paused_for(30.0) == 20.0


def test_the_command_says_it_as_json(tmp_path: Path) -> None:
    found = command_line(tmp_path).json("doctor", "--quick", exit_code=1)
    assert [check["name"] for check in found["checks"] if not check["ok"]] == ["service"]
