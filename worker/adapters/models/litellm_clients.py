"""Setup and errors shared by the LiteLLM adapters. Call `prepare_environment` before importing this module."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import aiohttp
import httpx
import litellm
import structlog
from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients
from openai import OpenAIError

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError

_log = structlog.get_logger()

CLIENT_TIMEOUT = 60.0
"""LiteLLM's own timeout in seconds. It opens a new connection for every other value, so deadlines are enforced
around the call."""

FAULTS = (
    OpenAIError,
    httpx.HTTPError,
    aiohttp.ClientError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)
"""Errors of a failed call: LiteLLM's derive from OpenAI's; the built-in ones come from malformed answers."""

_VERBOSE_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai", "httpx", "httpcore", "aiohttp")
"""Libraries that log requests, including memory texts, at debug or info level."""


def configure() -> None:
    """Keep texts out of logs and LiteLLM's hints off stdout, turn off retries, and import what calls need; blocks.

    The default number of retries must be 0 because LiteLLM ignores `max_retries=0` for embeddings.
    """
    litellm.suppress_debug_info = True
    litellm.DEFAULT_MAX_RETRIES = 0
    for name in _VERBOSE_LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))
    _import_what_calls_need()


@cache
def _import_what_calls_need() -> None:
    """Let a call fail without sending it.

    LiteLLM imports 150 modules, FastAPI among them, at its first call and first failure: on the event loop, that would
    stop all requests for half a second.
    """
    with suppress(*FAULTS):
        litellm.completion(
            model="openai/none",
            messages=[{"role": "user", "content": "not sent"}],
            mock_response=ConnectionError("not sent"),
        )


def call_options(model: str, api_base: str | None, api_key: str | None) -> dict[str, Any]:
    """Return the arguments of every call; servers that speak OpenAI's protocol get a dummy key if none is set."""
    if api_base and not api_key and model.startswith("openai/"):
        api_key = "none"
    return {
        "model": model,
        "api_base": api_base,
        "api_key": api_key,
        "timeout": CLIENT_TIMEOUT,
        "num_retries": 0,
        "max_retries": 0,
    }


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its chain of causes."""
    current: BaseException | None = error
    for _ in range(20):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__


async def close_clients() -> None:
    """Close all clients and empty LiteLLM's cache, which would reuse closed ones."""
    await close_litellm_async_clients()
    litellm.in_memory_llm_clients_cache.flush_cache()


class LiteLLMClient:
    """The base of models; waiting for one of `max_concurrent` slots counts against a call's deadline."""

    def __init__(
        self, name: str, api_base: str | None, api_key: str | None, max_concurrent: int, warm_timeout: float
    ) -> None:
        configure()
        self._name = name
        self._slots = asyncio.Semaphore(max_concurrent)
        self._warm_timeout = warm_timeout
        self._options = call_options(name, api_base, api_key)

    @property
    def name(self) -> str:
        return self._name

    async def aclose(self) -> None:
        """Close the connections of all LiteLLM clients in this process."""
        await close_clients()

    def _seconds_left(self, deadline: Deadline) -> float:
        left = deadline.remaining()
        if left <= 0:
            raise ModelError(Reason.MODEL_NO_TIME, f"{self._name}: no time left for a call")
        return left

    async def _warm(self, call: Callable[[Deadline], Awaitable[object]]) -> None:
        try:
            await call(Deadline.after(self._warm_timeout))
        except ModelError as error:
            _log.warning("model_warm_failed", model=self._name, reason=error.reason.value)
