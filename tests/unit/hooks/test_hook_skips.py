"""Requests that the hook answers without the queue."""

from typing import Any

import pytest

from hooks import PreExecutionHook, Reason
from hooks.contract import Outcome
from hooks.queue import QueueClient, Reply


class Forbidden(QueueClient):
    """A queue that must not be called."""

    async def ask(self, *_: Any, **__: Any) -> Reply:
        raise AssertionError("the queue was asked")


async def test_a_request_that_is_switched_off_does_not_reach_the_queue() -> None:
    result = await PreExecutionHook(queue=Forbidden())(
        {"session_id": "s", "turn_id": "t", "message": "hi", "mode": "off"}
    )
    assert (result.outcome, result.reason, result.turn_id) == (Outcome.SKIPPED, Reason.MODE_OFF, "t")


@pytest.mark.parametrize("fields", [{}, {"task_description": "do it"}])
async def test_a_blank_message_reaches_the_queue_because_it_may_open_a_session(fields: dict[str, Any]) -> None:
    result = await PreExecutionHook(queue=Forbidden())({"session_id": "s", "message": " ", **fields})
    assert result.reason is Reason.INTERNAL  # the queue above was asked, and raised


def test_the_package_loads_names_lazily() -> None:
    import hooks

    assert all(getattr(hooks, name) is not None for name in hooks.__all__)
    with pytest.raises(AttributeError):
        _ = hooks.nonsense
