"""What a session has been shown: the values that ledgers keep. Frozen, no I/O."""

import hashlib
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A memory that a session has been shown: its version, the turn's number and the block that carried it.

    `text` is what the block said. `vector` is the memory's dense vector, one signed byte per dimension: what was shown
    is compared, not what the store holds since. A `lasting` entry stands in the system prompt: it neither ages out
    nor goes with a compaction.
    """

    version: int
    turn: int
    block_id: str
    text: str = ""
    vector: bytes | None = None
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class LedgerView:
    """What the ledger knows at the start of a turn; `replay` is this turn's earlier answer as JSON.

    `pending` is the turn after which a compaction began that has not ended yet.
    """

    turn: int = 1
    shown: dict[str, LedgerEntry] = field(default_factory=dict)
    replay: str | None = None
    pending: int | None = None


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """Ledgers are kept per tenant, session and agent."""

    tenant: str
    session_id: str
    agent_id: str


def turn_key_of(turn_id: str, message: str) -> str:
    """A turn's id and a digest of its message: a caller that uses an id twice must not get a stale block."""
    return f"{turn_id}:{hashlib.sha256(message.encode()).hexdigest()[:12]}"


def turn_id_of(turn_key: str) -> str:
    """The turn that a key belongs to; a key without a digest is the turn's id itself."""
    turn_id, _, digest = turn_key.rpartition(":")
    return turn_id or digest
