"""The run: load at set times, one fault after the other, and the report."""

import asyncio
import itertools
import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError

from hooks import PreExecutionHook
from hooks.queue import QueueClient, QueueFault, connect
from tests.chaos.calls import INVARIANTS, OWNERS, Counts, RecordingQueue, Session, call, check_ledger, memories_of
from tests.chaos.faults import FAULTS, System
from tests.chaos.proxy import FaultProxy
from tests.support.stack import exported, fact, put, running_model_server, running_stack
from tests.support.valkey import running_valkey
from worker.operations.registry import PUT

FAULT_S = 2.0
"""Seconds that a fault lasts, and then that everything is well."""
TURNS = 4
"""Calls of one session; then its ledger is checked."""

WRITES = "writes"
BACK_WITHIN_S = 60.0


@dataclass
class Report:
    """What a run found."""

    seconds: float
    rate: float
    counts: Counts = field(default_factory=Counts)
    recoveries: dict[str, list[float]] = field(default_factory=dict)

    @property
    def violations(self) -> int:
        return sum(self.counts.broken.values())

    def as_json(self) -> dict[str, Any]:
        latencies = sorted(self.counts.latencies_ms) or [0.0]
        return {
            "seconds": self.seconds,
            "calls_per_second": self.rate,
            "calls": len(self.counts.latencies_ms),
            "invariants": {
                name: {"says": says, "checked": self.counts.checked[name], "violations": self.counts.broken[name]}
                for name, says in INVARIANTS.items()
            },
            "examples": self.counts.examples,
            "outcomes": dict(self.counts.outcomes.most_common()),
            "late_by_noise": self.counts.late_by_noise,
            "delivered_without_mark": self.counts.unmarked,
            "latency_ms": {
                name: round(latencies[min(len(latencies) - 1, int(len(latencies) * share))], 1)
                for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
            },
            "faults": {
                name: {"times": len(seconds), "recovery_s": round(statistics.median(seconds), 2), "max_s": max(seconds)}
                for name, seconds in self.recoveries.items()
            },
        }


@asynccontextmanager
async def running_system() -> AsyncIterator[tuple[System, str]]:
    """Run every part, with the memories of all owners; the second value is the address for hooks."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meeseeks-chaos-")))
        valkey, model = stack.enter_context(running_valkey()), stack.enter_context(running_model_server())
        model.behave(mode="ok", keep=[" of "])
        settings = folder / "settings.toml"
        # the model chooses every memory, and what it chose would be learned
        settings.write_text("[memory_injection]\nlearn_cues = false\n", encoding="utf-8")
        variables = {"MEESEEKS_CONFIG": str(settings)}
        arguments = ("--redis-url", valkey.url, "worker", *model.options)
        worker = stack.enter_context(running_stack(folder, *arguments, **variables))
        for tenant, user in OWNERS:
            await put(valkey.url, memories_of(tenant, user), tenant)
        proxy = FaultProxy(valkey.url.removeprefix("unix://"))
        port = await proxy.start()
        try:
            yield System(worker, valkey, model, proxy), f"redis://127.0.0.1:{port}"
        finally:
            await proxy.stop()


async def run(seconds: float, rate: float, faults: Iterable[str] = FAULTS, fault_s: float = FAULT_S) -> Report:
    """Break one part after the other for `seconds`, with `rate` calls a second, and return what was found."""
    report = Report(seconds, rate)
    async with running_system() as (system, url):
        queue = RecordingQueue(url)
        async with PreExecutionHook(queue=queue) as hook:
            end = time.monotonic() + seconds
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_load(hook, queue, system, report, end))
                writer = tasks.create_task(_write(system, end))
                for name in itertools.cycle(faults):
                    if time.monotonic() + 2 * fault_s > end:
                        break
                    async with FAULTS[name](system):
                        await asyncio.sleep(fault_s)
                        mended = time.monotonic()
                    report.recoveries.setdefault(name, []).append(await _recovered(hook, mended))
                    await asyncio.sleep(fault_s)
            acknowledged = writer.result()
        kept = await exported(system.valkey.url, WRITES)
        for one in acknowledged:
            report.counts.check("write", one in kept, one)
    return report


async def _recovered(hook: PreExecutionHook, mended: float) -> float:
    """Return the seconds from `mended` until memories come again; a program that is started again starts then."""
    tenant, user = OWNERS[0]
    while True:
        message, scope = "How are invoices numbered per country?", {"tenant": tenant, "user": user}
        request = {"session_id": uuid.uuid4().hex, "message": message, "scope": scope, "deadline_ms": 1000}
        if (await hook(request)).memory_context is not None:
            return round(time.monotonic() - mended, 3)
        assert time.monotonic() < mended + BACK_WITHIN_S, "the service did not come back"
        await asyncio.sleep(0.02)


async def _load(hook: PreExecutionHook, queue: RecordingQueue, system: System, report: Report, end: float) -> None:
    """Start sessions at set times, whatever has become of earlier ones, and wait for all."""
    redis = connect(system.valkey.url, connect_timeout=1.0)
    running, intended, number = set[asyncio.Task[None]](), time.monotonic(), 0
    try:
        while intended < end:
            await asyncio.sleep(max(0.0, intended - time.monotonic()))
            owner = OWNERS[(number // TURNS) % len(OWNERS)]
            session = Session(uuid.uuid4().hex, owner, system.epoch)
            times = [intended + place * 0.2 for place in range(TURNS)]
            task = asyncio.create_task(_converse(hook, queue, redis, system, session, number, times, report.counts))
            running.add(task)
            task.add_done_callback(running.discard)
            number += TURNS
            intended += TURNS / (report.rate * system.load)
        await asyncio.gather(*running)
    finally:
        await redis.aclose()


async def _converse(
    hook: PreExecutionHook,
    queue: RecordingQueue,
    redis: Any,
    system: System,
    session: Session,
    number: int,
    times: list[float],
    counts: Counts,
) -> None:
    for place, intended in enumerate(times):
        await asyncio.sleep(max(0.0, intended - time.monotonic()))
        if system.epoch != session.epoch:
            session.epoch, session.ledger_key = system.epoch, None
            session.delivered.clear()
            session.certain.clear()
        await call(hook, queue, session, number + place, intended, counts)
        if system.epoch != session.epoch:
            session.certain.clear()
    with suppress(RedisError, OSError):
        await check_ledger(redis, session, system.epoch, counts)


async def _write(system: System, end: float) -> list[str]:
    """Store a memory every half second; return the ids of those that the service acknowledged."""
    acknowledged, number, client = list[str](), 0, QueueClient(system.valkey.url)
    try:
        while time.monotonic() <= end:
            number += 1
            memory = fact(f"write-{number}", f"Note number {number} of the writer")
            with suppress(QueueFault):
                reply = await client.ask(PUT.name, {"tenant": WRITES, "memories": [memory]}, budget=2.0)
                if reply.body:
                    acknowledged.append(memory["id"])
            await asyncio.sleep(0.5)
    finally:
        await client.aclose()
    return acknowledged
