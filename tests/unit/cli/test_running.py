"""Coroutines are run without formatting what they return."""

import asyncio

import pytest

from worker.cli.running import run_async


class Large:
    def __repr__(self) -> str:
        raise AssertionError("formatted")


async def returned(value: object) -> object:
    await asyncio.sleep(0)
    return value


def test_the_result_is_not_formatted() -> None:
    value = Large()
    assert run_async(returned(value)) is value


def test_errors_pass() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_async(fail())
