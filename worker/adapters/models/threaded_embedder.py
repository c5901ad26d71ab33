"""The base of embedders that run a model in one thread of this process."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from onnxruntime.capi.onnxruntime_pybind11_state import (
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    RuntimeException,
)

from worker.domain.errors import EmbedderError
from worker.domain.memory import Vector

RUN_FAULTS = (
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    RuntimeException,
    RuntimeError,
    ValueError,
)
"""Errors of loading and running a model."""


class ThreadedEmbedder(ABC):
    """Run a model in its own thread. Passages hold `_passage_turn`, so that a query waits for one batch at most."""

    def __init__(self, thread_name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=thread_name)
        self._passage_turn = asyncio.Lock()

    @abstractmethod
    async def embed_query(self, text: str) -> Vector: ...

    async def warm(self) -> None:
        """Load the model, downloading it if needed, and run it once."""
        await self.embed_query("warm")

    async def aclose(self) -> None:
        """End the thread and cancel waiting calls."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, call: Callable[[], list[Vector]]) -> list[Vector]:
        try:
            future = self._thread.submit(call)
        except RuntimeError as error:
            raise EmbedderError("the embedder is closed") from error
        return await asyncio.wrap_future(future)
