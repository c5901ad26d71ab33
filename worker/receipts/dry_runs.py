"""Run a request with other settings, another prompt and a ledger of its own, without a trace in the service."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from hooks.contract import InjectionRequest, Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import NotFound, OperationError, PromptError
from worker.domain.kinds import ReceiptKeep
from worker.domain.ledger import LedgerEntry, LedgerKey
from worker.domain.receipt import Receipt, ReceiptPage, TurnOf
from worker.domain.receipt_summary import SummaryPage
from worker.injection.service import InjectionService
from worker.ports.state import Ledger, ReceiptStore
from worker.settings.injection import InjectionConfig
from worker.triage.chat_prompt import check_prompt
from worker.triage.decision_selector import check_decision_prompt
from worker.triage.live_selector import DECISION_PROMPT
from worker.triage.prompt_files import Prompt, parse_prompt

Build = Callable[[InjectionConfig, Prompt | None, Ledger, ReceiptStore], Awaitable[InjectionService]]
"""Builds a copy of the service with other settings, prompt, ledger and receipt store."""


class DryRuns:
    """Runs requests on copies of the service. `ledger` creates an empty one."""

    def __init__(self, build: Build, ledger: Callable[[], Ledger]) -> None:
        self._build = build
        self._ledger = ledger

    async def run(
        self,
        request: InjectionRequest,
        config: InjectionConfig,
        deadline: Deadline,
        prompt: Prompt | None = None,
        shown: Mapping[str, LedgerEntry] | None = None,
    ) -> Receipt:
        """Return the receipt that the request would leave, in full; `shown` is what its session has seen already."""
        ledger, capture = self._ledger(), _ReceiptCapture()
        dry = request.model_copy(update={"dry_run": True})
        await ledger.adopt(LedgerKey(dry.scope.tenant, dry.session_id, dry.agent_id), 1, dict(shown or {}))
        full = config.model_copy(update={"receipt_keep": ReceiptKeep.EVERYTHING})
        service = await self._build(full, prompt, ledger, capture)
        await service.inject(dry, deadline.within(dry.deadline_ms / 1000))
        await service.drain()
        if capture.receipt is None:
            raise OperationError(Reason.INTERNAL, "the dry run wrote no receipt")
        return capture.receipt


def prompt_of(text: str | None, folder: Path) -> Prompt | None:
    """Parse and check a prompt, which may extend one in `folder` or a shipped one. Blocks. Raise `OperationError`."""
    if text is None:
        return None
    try:
        prompt = parse_prompt(text, "the prompt", folder)
        (check_decision_prompt if prompt.id == DECISION_PROMPT else check_prompt)(prompt)
    except PromptError as error:
        raise OperationError(Reason.BAD_REQUEST, f"not a prompt that selects memories: {error}") from error
    return prompt


class _ReceiptCapture:
    """A `worker.ports.state.ReceiptStore` that keeps only the receipt of one dry run."""

    def __init__(self) -> None:
        self.receipt: Receipt | None = None

    async def write(self, receipt: Receipt) -> None:
        self.receipt = receipt

    async def read(self, tenant: str, receipt_id: str) -> Receipt:
        raise NotFound(f"there is no receipt {receipt_id}")

    async def several(self, tenant: str, ids: Sequence[str]) -> list[Receipt]:
        return []

    async def recent(self, tenant: str, limit: int, *, offset: int = 0) -> ReceiptPage:
        return ReceiptPage()

    async def erase(self, tenant: str, gone: Mapping[str, datetime]) -> int:
        return 0

    async def summaries(self, tenant: str, limit: int, *, after: str | None = None) -> SummaryPage:
        return SummaryPage()

    async def beginning(self, tenant: str, prefix: str) -> list[str]:
        return []

    async def of_turn(self, turn: TurnOf) -> list[Receipt]:
        return []
