"""Count which injected memories an answer used. The answer is not stored."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from hooks.contract import Outcome, Retention
from hooks.contract.usage import AnswerReport, AnswerReportResult
from worker.domain.deadline import Deadline
from worker.domain.errors import NotFound
from worker.domain.ledger import LedgerKey
from worker.domain.receipt import Receipt, TurnOf
from worker.injection.service import NoteUse
from worker.injection.turn import effective_retention
from worker.ports.state import Ledger, ReceiptStore, UsageStore
from worker.ports.store import StoreEngine
from worker.settings.injection import InjectionConfig
from worker.text.rendering import shown_text

from .usage_evidence import used_memories

log = structlog.get_logger()

RECEIPT_LOOKS, RECEIPT_STEP = 6, 0.05
"""Number of attempts to read a receipt, and the seconds between them."""

BY_WORDS = "words"
"""The method that found which memories an answer used."""


@dataclass(frozen=True, slots=True)
class AnswerUsageParts:
    receipts: ReceiptStore
    ledger: Ledger
    usage: UsageStore
    engine: StoreEngine
    config_for: Callable[[str], InjectionConfig]
    clock: Callable[[], datetime]
    used: NoteUse | None = None


class AnswerUsage:
    """Handle reports of answers."""

    def __init__(self, parts: AnswerUsageParts) -> None:
        self._parts = parts

    async def report(self, report: AnswerReport, deadline: Deadline) -> AnswerReportResult:
        """Count which memories an answer used. Raise `NotFound` if the turn has no usable receipt."""
        turn = TurnOf(
            tenant=report.tenant, session_id=report.session_id, agent_id=report.agent_id, turn_id=report.turn_id
        )
        receipts = await self._receipts(turn, deadline)
        if not receipts:
            raise NotFound("this turn has no receipt, so the injected memories are unknown")
        receipt = await self._delivered(receipts, report)
        if receipt is None:
            return AnswerReportResult(done=True)
        texts = await self._texts(receipt)
        message = report.message if report.message is not None else receipt.request.message
        if not message.strip():
            raise NotFound("the receipt has no message; include it in the report")
        evidence = await asyncio.to_thread(used_memories, texts, report.answer, message)
        used = frozenset(key for key, found in evidence.items() if found.used)
        by_id = {key: key in used for key in texts}
        counted = await self._parts.usage.count(report.tenant, receipt.id, by_id, self._parts.clock())
        log.info("answer_reported", injected=len(texts), used=len(used), counted=counted)
        if counted and self._parts.used is not None:
            self._parts.used(receipt, tuple(used), self._parts.config_for(report.agent_id))
        return AnswerReportResult(
            done=True,
            injected=tuple(texts),
            used=tuple(key for key in texts if key in used),
            judged_by=BY_WORDS,
            counted=counted,
        )

    async def _receipts(self, turn: TurnOf, deadline: Deadline) -> list[Receipt]:
        """Return the turn's receipts; wait briefly, because they are written after the answer is sent."""
        for _ in range(RECEIPT_LOOKS):
            found = await self._parts.receipts.of_turn(turn)
            if found or deadline.remaining() <= RECEIPT_STEP:
                return found
            await asyncio.sleep(RECEIPT_STEP)
        return []

    async def _delivered(self, receipts: Sequence[Receipt], report: AnswerReport) -> Receipt | None:
        """Return the receipt of the reported block, or else of the block in the ledger.

        Ephemeral blocks are not in the ledger and count as delivered.
        """
        found = [one for one in receipts if one.outcome is Outcome.INJECTED and not one.request.dry_run]
        if report.block_id is not None:
            return next((one for one in found if one.block_id == report.block_id), None)
        cap = self._parts.config_for(report.agent_id).max_injected_blocks_in_history
        ephemeral = [one for one in found if effective_retention(one.request, cap) is Retention.EPHEMERAL]
        if ephemeral or not found:
            return ephemeral[0] if ephemeral else None
        view = await self._parts.ledger.peek(LedgerKey(report.tenant, report.session_id, report.agent_id))
        shown = {entry.block_id for entry in view.shown.values()}
        return next((one for one in found if one.block_id in shown), None)

    async def _texts(self, receipt: Receipt) -> dict[str, str]:
        """Return the texts of the block's memories, from the store if the receipt has none."""
        texts = {one.id: one.text for one in receipt.considered if one.text}
        missing = [key for key in receipt.chosen if key not in texts]
        if missing:
            limit = self._parts.config_for(receipt.request.agent_id).max_item_chars
            memories = await self._parts.engine.tenant(receipt.request.scope.tenant).get(missing)
            texts |= {memory.id: shown_text(memory.content, limit, mask=True) for memory in memories}
        return {key: texts[key] for key in receipt.chosen if key in texts}
