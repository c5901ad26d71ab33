"""The faults: what each breaks, and how it is mended."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from tests.chaos.proxy import FaultProxy
from tests.support import stack
from tests.support.stack import ModelServer, Stack
from tests.support.valkey import sync_redis
from worker.adapters.redis.embedded_valkey import EmbeddedValkey

OVERLOAD = 10


@dataclass
class System:
    """Everything that can be broken; `epoch` counts how often Redis has lost its data, `load` multiplies the rate."""

    worker: Stack
    valkey: EmbeddedValkey
    model: ModelServer
    proxy: FaultProxy
    epoch: int = 0
    load: int = 1


Fault = Callable[[System], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def worker_killed(system: System) -> AsyncIterator[None]:
    await asyncio.to_thread(system.worker.kill)
    try:
        yield
    finally:
        await asyncio.to_thread(system.worker.start)


@asynccontextmanager
async def worker_restarted(system: System) -> AsyncIterator[None]:
    await asyncio.to_thread(system.worker.stop)
    try:
        yield
    finally:
        await asyncio.to_thread(system.worker.start)


@asynccontextmanager
async def frozen(pid_of: Callable[[System], int | None], system: System) -> AsyncIterator[None]:
    pid = pid_of(system)
    assert pid is not None
    with stack.frozen(pid):
        yield


@asynccontextmanager
async def redis_killed(system: System) -> AsyncIterator[None]:
    assert system.valkey.pid is not None
    os.kill(system.valkey.pid, signal.SIGKILL)
    system.epoch += 1
    await asyncio.to_thread(system.valkey.stop)
    try:
        yield
    finally:
        await asyncio.to_thread(system.valkey.start)
        system.epoch += 1


@asynccontextmanager
async def redis_full(system: System) -> AsyncIterator[None]:
    with sync_redis(system.valkey.url) as redis:
        redis.config_set("maxmemory", 1)
        try:
            yield
        finally:
            redis.config_set("maxmemory", 0)


@asynccontextmanager
async def redis_slow(system: System) -> AsyncIterator[None]:
    system.proxy.delay = 0.03
    try:
        yield
    finally:
        system.proxy.delay = 0.0


@asynccontextmanager
async def redis_reset(system: System) -> AsyncIterator[None]:
    system.proxy.refuses = True
    system.proxy.reset()
    try:
        yield
    finally:
        system.proxy.refuses = False


@asynccontextmanager
async def model_broken(mode: str, system: System) -> AsyncIterator[None]:
    await asyncio.to_thread(partial(system.model.behave, mode=mode))
    try:
        yield
    finally:
        await asyncio.to_thread(partial(system.model.behave, mode="ok"))


@asynccontextmanager
async def overloaded(system: System) -> AsyncIterator[None]:
    system.load = OVERLOAD
    try:
        yield
    finally:
        system.load = 1


FAULTS: dict[str, Fault] = {
    "Redis killed": redis_killed,
    "worker killed": worker_killed,
    "model hangs": partial(model_broken, "hang"),
    "Redis frozen": partial(frozen, lambda system: system.valkey.pid),
    "worker stopped (SIGSTOP)": partial(frozen, lambda system: system.worker.pid),
    "Redis full": redis_full,
    "connections to Redis reset": redis_reset,
    "Redis slow (30 ms each way)": redis_slow,
    "model drips": partial(model_broken, "drip"),
    "model breaks off": partial(model_broken, "disconnect"),
    "model says 429": partial(model_broken, "rate_limit"),
    "worker restarted": worker_restarted,
    "ten times the load": overloaded,
}
