"""The use case after a run: which memories of a turn's block its answer used, counted. The answer is not kept."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from hooks.contract import Outcome, Retention
from hooks.usage_contract import AnswerReport, AnswerReportResult
from worker.domain.deadline import Deadline
from worker.domain.errors import NotFound
from worker.domain.ledger import LedgerKey
from worker.domain.receipt import Receipt, TurnOf
from worker.ports.state import Ledger, ReceiptStore, UsageStore
from worker.ports.store import StoreEngine
from worker.settings.injection import InjectionConfig
from worker.text.rendering import shown_text

from .usage_evidence import used_memories

log = structlog.get_logger()

RECEIPT_LOOKS, RECEIPT_STEP = 6, 0.05
"""How often a receipt is looked for, and the seconds between two looks."""

BY_WORDS = "words"
"""How it was found out what an answer used; part of the report."""


@dataclass(frozen=True, slots=True)
class AnswerUsageParts:
    """What reports of answers need."""

    receipts: ReceiptStore
    ledger: Ledger
    usage: UsageStore
    engine: StoreEngine
    config_for: Callable[[str], InjectionConfig]
    clock: Callable[[], datetime]


class AnswerUsage:
    """Takes reports of answers."""

    def __init__(self, parts: AnswerUsageParts) -> None:
        self._parts = parts

    async def report(self, report: AnswerReport, deadline: Deadline) -> AnswerReportResult:
        """Count what an answer used. Raises `NotFound` where no receipt tells what the turn was given."""
        turn = TurnOf(
            tenant=report.tenant, session_id=report.session_id, agent_id=report.agent_id, turn_id=report.turn_id
        )
        receipts = await self._receipts(turn, deadline)
        if not receipts:
            raise NotFound("no receipt of this turn is kept, so it is not known what its worker was told")
        receipt = await self._delivered(receipts, report)
        if receipt is None:
            return AnswerReportResult(done=True)
        texts = await self._texts(receipt)
        message = report.message if report.message is not None else receipt.request.message
        if not message.strip():
            raise NotFound("neither the report nor the receipt has the message, without which words say nothing")
        evidence = await asyncio.to_thread(used_memories, texts, report.answer, message)
        used = frozenset(key for key, found in evidence.items() if found.used)
        by_id = {key: key in used for key in texts}
        counted = await self._parts.usage.count(report.tenant, receipt.id, by_id, self._parts.clock())
        log.info("answer_reported", injected=len(texts), used=len(used), counted=counted)
        return AnswerReportResult(
            done=True,
            injected=tuple(texts),
            used=tuple(key for key in texts if key in used),
            judged_by=BY_WORDS,
            counted=counted,
        )

    async def _receipts(self, turn: TurnOf, deadline: Deadline) -> list[Receipt]:
        """The turn's receipts; they are written after the answer, so a quick worker may be ahead of them."""
        for _ in range(RECEIPT_LOOKS):
            found = await self._parts.receipts.of_turn(turn)
            if found or deadline.remaining() <= RECEIPT_STEP:
                return found
            await asyncio.sleep(RECEIPT_STEP)
        return []

    async def _delivered(self, receipts: Sequence[Receipt], report: AnswerReport) -> Receipt | None:
        """The receipt of the block that the worker got: the one that was named, else the one that the ledger knows.

        An ephemeral block is in no ledger and counts as delivered.
        """
        found = [one for one in receipts if one.outcome is Outcome.INJECTED and not one.request.dry_run]
        if report.block_id is not None:
            return next((one for one in found if one.block_id == report.block_id), None)
        ephemeral = [one for one in found if one.request.retention is Retention.EPHEMERAL]
        if ephemeral or not found:
            return ephemeral[0] if ephemeral else None
        view = await self._parts.ledger.peek(LedgerKey(report.tenant, report.session_id, report.agent_id))
        shown = {entry.block_id for entry in view.shown.values()}
        return next((one for one in found if one.block_id in shown), None)

    async def _texts(self, receipt: Receipt) -> dict[str, str]:
        """The texts of the block's memories, from the store where the receipt keeps none."""
        told = {one.id: one.text for one in receipt.considered if one.text}
        missing = [key for key in receipt.chosen if key not in told]
        if missing:
            limit = self._parts.config_for(receipt.request.agent_id).max_item_chars
            memories = await self._parts.engine.tenant(receipt.request.scope.tenant).get(missing)
            told |= {memory.id: shown_text(memory.content, limit, mask=True) for memory in memories}
        return {key: told[key] for key in receipt.chosen if key in told}
