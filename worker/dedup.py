"""Drops what the session has already been shown and what says the same twice. Pure."""

from collections.abc import Sequence

from hooks.contract import Retention

from .models import Candidate, Dropped, LedgerEntry, LedgerView, Memory, Verdict


def still_shown(
    view: LedgerView, *, retention: Retention, visible_blocks: Sequence[str] | None, depth: int
) -> dict[str, LedgerEntry]:
    """The ledger's entries that count as being in the context now.

    An ephemeral block is gone after its turn. Where the caller says which blocks it still sees, only those count.
    Entries leave the window after `depth` turns.
    """
    if retention is Retention.EPHEMERAL:
        return {}
    return {
        memory_id: entry
        for memory_id, entry in view.shown.items()
        if view.turn - entry.turn < depth and (visible_blocks is None or entry.block_id in visible_blocks)
    }


def deduplicate(
    candidates: Sequence[Candidate], shown: dict[str, LedgerEntry]
) -> tuple[tuple[Candidate, ...], tuple[Dropped, ...]]:
    """The candidates that are new to the context and to this batch, and the others with the reason.

    A memory that was edited since it was shown has a higher version and may come again.
    """
    kept: list[Candidate] = []
    dropped: list[Dropped] = []
    ids: set[str] = set()
    texts: set[str] = set()
    for candidate in candidates:
        memory = candidate.memory
        text = " ".join(memory.content.casefold().split())
        if _is_shown(memory, shown):
            dropped.append(Dropped(candidate, Verdict.ALREADY_SHOWN))
        elif memory.id in ids or text in texts:
            dropped.append(Dropped(candidate, Verdict.DUPLICATE))
        else:
            ids.add(memory.id)
            texts.add(text)
            kept.append(candidate)
    return tuple(kept), tuple(dropped)


def _is_shown(memory: Memory, shown: dict[str, LedgerEntry]) -> bool:
    entry = shown.get(memory.id)
    return entry is not None and entry.version >= memory.version
