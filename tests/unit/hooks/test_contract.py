"""The models of the wire contract."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from hooks.contract import InjectionRequest, InjectionResult, Outcome, Reason, SessionEvent, clean_text
from worker.domain.memory import Memory
from worker.settings.injection import InjectionConfig
from worker.settings.service import ServiceSettings


def test_a_request_needs_a_session_and_a_message() -> None:
    request = InjectionRequest.model_validate({"session_id": "s", "message": "m"})
    assert (request.agent_id, request.scope.tenant, request.deadline_ms) == ("main", "default", 3000)
    for missing in ({"session_id": "s"}, {"message": "m"}, {"session_id": "", "message": "m"}):
        with pytest.raises(ValidationError):
            InjectionRequest.model_validate(missing)


def test_every_request_without_a_turn_id_gets_its_own() -> None:
    first, second = (InjectionRequest(session_id="s", message="m") for _ in range(2))
    assert first.turn_id != second.turn_id


def test_unknown_fields_are_ignored_so_that_either_side_may_be_newer() -> None:
    request = InjectionRequest.model_validate({"session_id": "s", "message": "m", "from_the_future": 1})
    assert "from_the_future" not in request.model_dump()


def test_new_reasons_become_unknown() -> None:
    result = InjectionResult.model_validate({"outcome": "error", "reason": "solar_flare"})
    assert result.reason is Reason.UNKNOWN


@pytest.mark.parametrize("deadline_ms", [0, -1, 60_001])
def test_deadlines_are_bounded(deadline_ms: int) -> None:
    with pytest.raises(ValidationError):
        InjectionRequest(session_id="s", message="m", deadline_ms=deadline_ms)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_outside_the_years_of_utc_is_rejected(time: str) -> None:
    with pytest.raises(ValidationError, match="years 1 to 9999"):
        InjectionRequest.model_validate({"session_id": "s", "message": "m", "now": time})


def test_times_become_utc() -> None:
    local = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    for given_time in (local, datetime(2026, 1, 1, 10)):
        request = InjectionRequest(session_id="s", message="m", now=given_time)
        assert request.now == datetime(2026, 1, 1, 10, tzinfo=UTC)


def test_models_are_frozen() -> None:
    request = InjectionRequest(session_id="s", message="m")
    with pytest.raises(ValidationError):
        request.message = "other"  # type: ignore[misc]


def test_unpaired_surrogates_become_replacement_characters() -> None:
    assert clean_text("a\ud800b\udfff") == "a\ufffdb\ufffd"
    assert clean_text("caf\u00e9 \U0001f600") == "caf\u00e9 \U0001f600"
    assert clean_text(7) == 7


def test_a_surrogate_pair_in_two_halves_becomes_the_character() -> None:
    assert clean_text("\ud83d\ude00") == "\U0001f600"


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_survives_the_wire(text: str) -> None:
    request = InjectionRequest.model_validate(json.loads(json.dumps({"session_id": "s", "message": text})))
    again = InjectionRequest.model_validate_json(request.model_dump_json().encode("utf-8"))
    assert again == request
    assert len(request.message) <= len(text)


def test_prefix_puts_the_block_before_the_message() -> None:
    block = InjectionResult(outcome=Outcome.INJECTED, memory_context="<memory_context>x</memory_context>")
    assert block.prefix("hi") == "<memory_context>x</memory_context>\n\nhi"
    assert InjectionResult.nothing(Outcome.TIMEOUT, Reason.NO_ACK).prefix("hi") == "hi"


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (InjectionRequest, {"session_id": "s", "message": "m", "deadline_ms": True}),
        (SessionEvent, {"session_id": "s", "type": "context.pruned", "kept_turns": False}),
        (Memory, {"id": "m", "content": "c", "importance": True}),
        (InjectionConfig, {"max_items": True}),
        (ServiceSettings, {"max_jobs": True}),
    ],
)
def test_true_is_no_number(model: type[BaseModel], fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"valid (integer|number)"):
        model.model_validate(fields)


def test_true_stays_true_where_it_is_meant() -> None:
    assert InjectionRequest(session_id="s", message="m", dry_run=True).dry_run
