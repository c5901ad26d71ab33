"""One call of the hook at its intended time, and what must hold for it whatever is broken."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hooks import InjectionResult, PreExecutionHook
from hooks.contract.blocks import find_blocks
from hooks.queue import QueueClient
from tests.support.load import Stopwatch
from tests.support.stack import CONTRACT_S, fact
from worker.domain.ledger import turn_id_of

DEADLINE_MS = 1000
OWNERS = tuple((tenant, user) for tenant in ("acme", "globex") for user in ("ann", "bob"))
TOPICS = {
    "alembic": (
        "Database migrations are written with Alembic",
        "Write the database migration with Alembic or by hand?",
    ),
    "tuesday": ("Deployments to production happen on Tuesdays", "When may the deployment to production happen?"),
    "invoices": ("Invoices are numbered per year and country", "How are invoices numbered per country?"),
}

INVARIANTS = {
    "deadline": "answered by the deadline + 10 ms",
    "exception": "no exception",
    "message": "the message is preserved",
    "blocks": "at most one block",
    "owner": "only memories of the right tenant and user",
    "repeated": "nothing again that the ledger has",
    "ledger": "the ledger is what was delivered",
    "write": "no acknowledged write is lost",
}


def memories_of(tenant: str, user: str) -> list[dict[str, Any]]:
    """Return the memories of an owner; each id begins with whose it is."""
    return [
        fact(f"{tenant}-{user}-{topic}", f"{text} ({user} of {tenant})", scope={"user": user})
        for topic, (text, _) in TOPICS.items()
    ]


class RecordingQueue(QueueClient):
    """The queue's client, which notes what was committed."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.committed: dict[str, tuple[str, bool]] = {}

    async def commit(self, ledger_key: str, turn_id: str, timeout: float) -> bool:
        done = await super().commit(ledger_key, turn_id, timeout)
        self.committed[turn_id_of(turn_id)] = (ledger_key, done)
        return done


@dataclass
class Counts:
    """How often each invariant was checked and broken, and what the calls were answered."""

    checked: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    latencies_ms: list[float] = field(default_factory=list)
    late_by_noise: int = 0
    unmarked: int = 0

    def check(self, invariant: str, holds: bool, example: str) -> None:
        self.checked[invariant] += 1
        if not holds:
            self.broken[invariant] += 1
            if len(self.examples) < 20:
                self.examples.append(f"{invariant}: {example}")


@dataclass
class Session:
    """A conversation of one owner: what it was shown, and what the ledger must therefore have."""

    name: str
    owner: tuple[str, str]
    epoch: int
    delivered: set[str] = field(default_factory=set)
    certain: set[str] = field(default_factory=set)
    ledger_key: str | None = None


async def call(
    hook: PreExecutionHook, queue: RecordingQueue, session: Session, number: int, intended: float, counts: Counts
) -> InjectionResult | None:
    """Make one call, check what must hold for it, and return its result."""
    topic = tuple(TOPICS)[number % len(TOPICS)]
    message, turn = TOPICS[topic][1], f"turn-{number}"
    tenant, user = session.owner
    request = {"session_id": session.name, "turn_id": turn, "message": message, "deadline_ms": DEADLINE_MS}
    watch, begun = Stopwatch(), time.monotonic()
    try:
        result = await hook({**request, "scope": {"tenant": tenant, "user": user}})
    except Exception as error:  # an exception of any kind is what this counts  # noqa: BLE001
        counts.check("exception", False, repr(error))
        return None
    own, wall, now = watch.seconds, time.monotonic() - begun, time.monotonic()
    limit = DEADLINE_MS / 1000 + CONTRACT_S
    counts.check("exception", True, "")
    counts.latencies_ms.append((now - intended) * 1000)
    counts.late_by_noise += own <= limit < wall
    counts.check("deadline", own <= limit, f"{own:.3f} s, {result.outcome} {result.reason}")
    counts.outcomes[str(result.reason or result.outcome)] += 1
    _check_block(result, message, session, counts)
    _note_delivery(queue, session, turn, result, counts)
    return result


def _check_block(result: InjectionResult, message: str, session: Session, counts: Counts) -> None:
    given = result.prefix(message)
    whole = given == message if result.memory_context is None else given.endswith(message)
    counts.check("message", whole, given[:80])
    counts.check("blocks", len(find_blocks(given)) == (result.memory_context is not None), given[:80])
    ids = {item.id for item in result.items}
    mark = "-".join(session.owner) + "-"
    counts.check("owner", all(one.startswith(mark) for one in ids), f"{session.owner} got {sorted(ids)}")


def _note_delivery(queue: RecordingQueue, session: Session, turn: str, result: InjectionResult, counts: Counts) -> None:
    ids = {item.id for item in result.items}
    key, done = queue.committed.pop(turn, (None, False))
    counts.check("repeated", not ids & session.certain, f"{session.name}: {sorted(ids & session.certain)}")
    session.delivered |= ids
    session.ledger_key = key or session.ledger_key
    if done:
        session.certain |= ids
    elif ids:
        counts.unmarked += 1


async def check_ledger(redis: Any, session: Session, epoch: int, counts: Counts) -> None:
    """Compare the ledger with what was delivered, unless Redis lost everything meanwhile."""
    if session.ledger_key is None or session.epoch != epoch:
        return
    async with asyncio.timeout(2.0):
        fields = await redis.hkeys(session.ledger_key)
    kept = {name.decode()[2:] for name in fields if name.startswith(b"m:")}
    counts.check("ledger", session.certain <= kept <= session.delivered, f"{session} has {sorted(kept)}")
