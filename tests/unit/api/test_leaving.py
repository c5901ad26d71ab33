"""Callers that leave before their answer."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from hooks.contract import Reason
from worker.api.execution import ClientGone, while_awaited
from worker.domain.errors import OperationError
from worker.domain.operation import OperationAnswer


async def disconnected() -> dict[str, str]:
    return {"type": "http.disconnect"}


async def waits_for_ever() -> dict[str, str]:
    await asyncio.sleep(3600)
    return {}


async def refused_at_once() -> OperationAnswer:
    raise OperationError(Reason.BUSY, "too many requests are waiting")


async def refused_when_stopped() -> OperationAnswer:
    try:
        await asyncio.sleep(3600)
    finally:
        raise OperationError(Reason.BUSY, "too many requests are waiting")


@pytest.mark.parametrize("work", [refused_at_once, refused_when_stopped])
async def test_an_error_of_work_that_nobody_waits_for_is_not_logged(
    work: Callable[[], Coroutine[Any, Any, OperationAnswer]],
) -> None:
    logged: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context["message"]))
    with pytest.raises(ClientGone):
        await while_awaited(disconnected, work())
    gc.collect()
    assert logged == []


async def test_a_caller_that_waits_gets_the_error() -> None:
    with pytest.raises(OperationError):
        await while_awaited(waits_for_ever, refused_at_once())
