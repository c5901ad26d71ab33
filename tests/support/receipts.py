"""Receipts for tests."""

from datetime import UTC, datetime

from hooks.contract import InjectionRequest, Outcome, Scope
from worker.domain.memory import CandidateVerdict, MemoryType
from worker.domain.receipt import ConsideredMemory, Receipt


def showing(number: int, *ids: str, tenant: str = "default") -> Receipt:
    """Return the receipt of a request for which these memories were considered, and the first injected."""
    return Receipt(
        id=f"r{number}",
        at=datetime(2026, 1, 1, tzinfo=UTC),
        request=InjectionRequest(session_id="s", message="caf\u00e9 \U0001f600", scope=Scope(tenant=tenant)),
        outcome=Outcome.INJECTED,
        considered=tuple(map(_considered, ids)),
        chosen=ids[:1],
        block=f"text of {ids[0]}" if ids else None,
    )


def _considered(memory_id: str) -> ConsideredMemory:
    return ConsideredMemory(
        id=memory_id,
        type=MemoryType.FACT,
        text=f"text of {memory_id}",
        cue=f"cue of {memory_id}",
        version=1,
        score=1.0,
        verdict=CandidateVerdict.CHOSEN,
    )
