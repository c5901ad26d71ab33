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


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"message": ""}, Reason.EMPTY_MESSAGE),
        ({"message": " \n\t", "task_description": "  "}, Reason.EMPTY_MESSAGE),
        ({"message": "hi", "mode": "off"}, Reason.MODE_OFF),
    ],
)
async def test_skipped_requests_do_not_reach_the_queue(fields: dict[str, Any], reason: Reason) -> None:
    result = await PreExecutionHook(queue=Forbidden())({"session_id": "s", "turn_id": "t", **fields})
    assert (result.outcome, result.reason, result.turn_id) == (Outcome.SKIPPED, reason, "t")


async def test_a_task_without_a_message_reaches_the_queue() -> None:
    result = await PreExecutionHook(queue=Forbidden())({"session_id": "s", "message": "", "task_description": "do it"})
    assert result.reason is Reason.INTERNAL  # the queue above was asked, and raised


def test_the_package_loads_names_lazily() -> None:
    import hooks

    assert all(getattr(hooks, name) is not None for name in hooks.__all__)
    with pytest.raises(AttributeError):
        _ = hooks.nonsense
