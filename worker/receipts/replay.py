"""Re-run a receipt's request at its time as a dry run, and compare the results.

The memories come from today's store, limited to those that existed then. The settings and the memories that the session
had already seen come from the receipt.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import structlog
from pydantic import ValidationError

from hooks.contract import InjectionRequest, Mode, Reason, new_turn_id
from worker.domain.deadline import Deadline
from worker.domain.errors import OperationError, SettingsError
from worker.domain.kinds import ReceiptKeep
from worker.domain.ledger import LedgerEntry
from worker.domain.memory import CandidateVerdict, Memory
from worker.domain.patterns import bounded_pattern
from worker.domain.receipt import Receipt
from worker.ports.state import ReceiptStore
from worker.ports.store import StoreEngine
from worker.settings.file import describe_errors
from worker.settings.former_keys import current_keys
from worker.settings.injection import InjectionConfig, Strategy
from worker.settings.search import PATTERN_KEYS
from worker.triage.live_selector import DECISION_PROMPT, TRIAGE_PROMPT
from worker.triage.prompt_files import Prompt

from .deleted_texts import read_shown
from .dry_runs import DryRuns, prompt_of
from .replay_models import (
    NO_MODEL,
    ChangedMemory,
    OutcomeChange,
    Replay,
    ReplayRequest,
    ReplayRun,
    ReplaySummary,
    TriedPrompt,
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ReplayParts:
    """Dependencies of replays; `prompts` is the folder of base prompts."""

    receipts: ReceiptStore
    engine: StoreEngine
    config_for: Callable[[str], InjectionConfig]
    runs: DryRuns
    prompts: Path


class Replayer:
    """Re-run past requests."""

    def __init__(self, parts: ReplayParts) -> None:
        self._parts = parts

    async def replay(self, tenant: str, receipt_id: str, requested: ReplayRequest, deadline: Deadline) -> Replay:
        """Re-run the request of a receipt.

        Raise `NotFound`, `OperationError` if the receipt has no texts or the prompt is invalid, or `SettingsError` if
        the settings are invalid.
        """
        receipt = await read_shown(self._parts.receipts, self._parts.engine, tenant, receipt_id)
        if receipt.kept is not ReceiptKeep.EVERYTHING:
            text = f"receipt {receipt_id} has no texts (receipt_keep = {receipt.kept}); it cannot be replayed"
            raise OperationError(Reason.BAD_REQUEST, text)
        known: Mapping[str, object] = receipt.config
        if requested.current:
            known = self._parts.config_for(receipt.request.agent_id).model_dump(mode="json")
        prompt = await asyncio.to_thread(prompt_of, requested.prompt, self._parts.prompts)
        config, ignored = config_of(known, requested, prompt)
        request = request_of(receipt, requested)
        again = await self._parts.runs.run(request, config, deadline, prompt, shown_then(receipt))
        memories = await self._parts.engine.tenant(tenant).get([one.id for one in receipt.considered])
        found = compared(receipt, again, memories, ignored)
        log.info("replayed", receipt=receipt_id, same=found.same, elapsed_ms=again.elapsed_ms)
        return found.model_copy(update={"tried": tried_of(prompt, known, again)})


def request_of(receipt: Receipt, requested: ReplayRequest) -> InjectionRequest:
    """Return the request to re-run: at its time, as a dry run, with a new turn id."""
    changes: dict[str, Any] = {"now": receipt.at, "visible_blocks": None, "turn_id": new_turn_id()}
    if requested.mode is not None or requested.model == NO_MODEL:
        changes["mode"] = requested.mode or Mode.DETERMINISTIC
    if requested.deadline_ms is not None:
        changes["deadline_ms"] = requested.deadline_ms
    return receipt.request.model_copy(update=changes)


def config_of(
    known: Mapping[str, object], requested: ReplayRequest, prompt: Prompt | None = None
) -> tuple[InjectionConfig, tuple[str, ...]]:
    """Return the settings of a replay, and the receipt's settings that are not used: keys that no longer exist, and
    expressions that today's engine refuses. Raise `SettingsError`. Pure."""
    known = current_keys(known)
    values = {key: value for key, value in known.items() if key in InjectionConfig.model_fields and _runs(key, value)}
    unused = tuple(sorted(set(known) - set(values)))
    values |= requested.settings
    if requested.model is not None and requested.model != NO_MODEL:
        values["models"] = [requested.model]
        values["strategy"] = requested.settings.get("strategy", Strategy.AUTO)
    if requested.deadline_ms is not None:
        values["deadline_ms"] = requested.deadline_ms
    if prompt is not None and prompt.id != DECISION_PROMPT:
        values["prompt"] = prompt.id
    try:
        return InjectionConfig.model_validate(values), unused
    except ValidationError as error:
        raise SettingsError("; ".join(describe_errors(error, InjectionConfig, "memory_injection", ()))) from error


def _runs(key: str, value: object) -> bool:
    try:
        for pattern in value if key in PATTERN_KEYS and isinstance(value, list | tuple) else ():
            bounded_pattern(pattern)
    except ValueError:
        return False
    return True


def shown_then(receipt: Receipt) -> dict[str, LedgerEntry]:
    """Return the considered memories that the session had already seen. Pure."""
    shown = (one for one in receipt.considered if one.verdict is CandidateVerdict.ALREADY_SHOWN)
    return {one.id: LedgerEntry(one.version, 0, "", lasting=True) for one in shown}


def tried_of(prompt: Prompt | None, known: Mapping[str, object], again: Receipt) -> TriedPrompt | None:
    """Describe the prompt of a replay; `known` are the settings before the change. Pure."""
    if prompt is None:
        return None
    decides = prompt.id == DECISION_PROMPT
    return TriedPrompt(
        prompt=prompt.name,
        strategy=Strategy.DECISION if decides else Strategy.LLM,
        replaces=DECISION_PROMPT if decides else str(known.get("prompt", TRIAGE_PROMPT)),
        used=again.model is not None and again.model.prompt_id == prompt.name,
    )


def compared(before: Receipt, after: Receipt, today: Sequence[Memory], ignored: tuple[str, ...] = ()) -> Replay:
    """Compare two receipts of one request, and list memories that have changed since. Pure."""
    versions = {memory.id: memory.version for memory in today}
    return Replay(
        receipt_id=before.id,
        same=before.chosen == after.chosen,
        before=_run(before),
        after=_run(after),
        outcomes=_candidate_outcomes(before, after),
        changed_memories=tuple(
            ChangedMemory(id=one.id, then=one.version, now=versions.get(one.id))
            for one in before.considered
            if versions.get(one.id) != one.version
        ),
        ignored=ignored,
    )


def summed_up(replays: Sequence[dict[str, Any]], not_run: Sequence[str] = ()) -> ReplaySummary:
    """Summarise replays, each a `Replay` as JSON or a `receipt_id` with an `error`. Pure."""
    done = [one for one in replays if "error" not in one]
    pairs = [(set(one["before"]["chosen"]), set(one["after"]["chosen"])) for one in done]
    return ReplaySummary(
        replayed=len(done),
        failed=len(replays) - len(done),
        same=sum(one["same"] for one in done),
        with_memory_before=sum(bool(before) for before, _ in pairs),
        with_memory_after=sum(bool(after) for _, after in pairs),
        memories_added=sum(len(after - before) for before, after in pairs),
        memories_removed=sum(len(before - after) for before, after in pairs),
        degraded_before=sum(one["before"]["degraded"] for one in done),
        degraded_after=sum(one["after"]["degraded"] for one in done),
        median_ms_before=_median([one["before"]["elapsed_ms"] for one in done]),
        median_ms_after=_median([one["after"]["elapsed_ms"] for one in done]),
        not_run=tuple(not_run),
        replays=tuple(replays),
    )


def _median(values: Sequence[float]) -> float | None:
    return round(median(values), 1) if values else None


def _run(receipt: Receipt) -> ReplayRun:
    return ReplayRun(
        outcome=receipt.outcome,
        reason=receipt.reason,
        engine=receipt.engine,
        degraded=receipt.degraded,
        chosen=receipt.chosen,
        model=receipt.model.name if receipt.model else None,
        prompt=receipt.model.prompt_id if receipt.model else None,
        config_version=receipt.config_version,
        notes=receipt.notes,
        elapsed_ms=receipt.elapsed_ms,
        stages=receipt.stages,
    )


def _candidate_outcomes(before: Receipt, after: Receipt) -> tuple[OutcomeChange, ...]:
    """Return every memory considered then or now: the block's first, then by relevance."""
    then = {one.id: one for one in before.considered}
    now = {one.id: one for one in after.considered}
    order = dict.fromkeys([*before.chosen, *after.chosen, *then, *now])
    return tuple(
        OutcomeChange(
            id=key,
            text=(now.get(key) or then[key]).text,
            before=then[key].verdict if key in then else None,
            after=now[key].verdict if key in now else None,
            place_before=_place(before.chosen, key),
            place_after=_place(after.chosen, key),
        )
        for key in order
    )


def _place(chosen: Sequence[str], key: str) -> int | None:
    return chosen.index(key) + 1 if key in chosen else None
