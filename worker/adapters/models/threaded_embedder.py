"""The base of embedders that run a model in threads of this process."""

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
    """Run a model in its own threads.

    Passages take a `_passage_turn` per batch, of which there is one fewer than threads: a query waits for none. With
    one thread there is one turn, and a query waits for one batch at most.
    """

    def __init__(self, thread_name: str, threads: int = 1) -> None:
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=thread_name)
        self._passage_turn = asyncio.Semaphore(max(1, threads - 1))

    @abstractmethod
    async def embed_query(self, text: str) -> Vector: ...

    async def warm(self) -> None:
        """Load the model, downloading it if needed, and run it once."""
        await self.embed_query("warm")

    async def aclose(self) -> None:
        """End the threads and cancel waiting calls."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _run(self, call: Callable[[], list[Vector]]) -> list[Vector]:
        try:
            future = self._executor.submit(call)
        except RuntimeError as error:
            raise EmbedderError("the embedder is closed") from error
        return await asyncio.wrap_future(future)
