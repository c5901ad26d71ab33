"""Values of the ledger, which records the memories a session has been shown."""

import hashlib
from dataclasses import dataclass, field

UNSEEN = -1
"""In place of the number of offers that a turn has seen: its ledger could not be read."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A memory shown to a session, with its version, turn number and block.

    `text` is the text as shown. `vector` is the memory's dense vector as shown, one signed byte per dimension.
    A `lasting` entry is part of the system prompt: it neither expires nor goes away with a compaction.
    """

    version: int
    turn: int
    block_id: str
    text: str = ""
    vector: bytes | None = None
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class LedgerView:
    """The ledger at the start of a turn.

    `turn` is 0 if the ledger did not answer. `replay` is this turn's earlier answer as JSON. `pending` is the last turn
    before an unfinished compaction, and `compacted` the last turn when an announced compaction ended. `offers` counts
    the offers so far.
    """

    turn: int = 1
    shown: dict[str, LedgerEntry] = field(default_factory=dict)
    replay: str | None = None
    pending: int | None = None
    compacted: int | None = None
    offers: int = 0


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """Identify a ledger: one per tenant, session and agent."""

    tenant: str
    session_id: str
    agent_id: str


def turn_key_of(turn_id: str, message: str, scope: str) -> str:
    """Return the turn's id and a digest of its message and scope.

    A reused id then replays neither a stale block nor one that was made for somebody else. `scope` is any text that
    differs between scopes.
    """
    digest = hashlib.sha256("\0".join((scope, message)).encode()).hexdigest()
    return f"{turn_id}:{digest[:16]}"


def turn_id_of(turn_key: str) -> str:
    """Return the turn id in a turn key; a key without a digest is the id itself."""
    turn_id, _, digest = turn_key.rpartition(":")
    return turn_id or digest
