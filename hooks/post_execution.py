"""The `worker:post_execution` hook, which reports a worker's answer so that the service learns which memories help."""

import time
from collections.abc import Mapping
from typing import Any

from .background import Blocking, Unfinished
from .contract import AnswerReport, AnswerReportResult, Reason
from .contract.usage import DEFAULT_REPORT_DEADLINE_MS
from .failing import elapsed_ms, report_not_done, safely
from .protocol import wire
from .queue.hook import QueueHook
from .sync import seconds_of


class PostExecutionHook(QueueHook):
    """Report answers after a run. Optional.

    Calls never raise and take at most a few milliseconds more than the report's `deadline_ms`. One hook serves
    concurrent calls on any event loop.

        async with PostExecutionHook() as hook:
            await hook(session_id="s1", turn_id=result.turn_id, answer=answer)
    """

    async def __call__(
        self, report: AnswerReport | Mapping[str, Any] | None = None, **fields: Any
    ) -> AnswerReportResult:
        """Report an answer, given as a model, a mapping or keyword arguments. Return the memories that it used."""
        started = time.monotonic()
        result = await safely(self._report(fields if report is None else report, started), report_not_done)
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def _report(self, given: AnswerReport | Mapping[str, Any], started: float) -> AnswerReportResult:
        report = AnswerReport.model_validate(given)
        budget = started + report.deadline_ms / 1000 - time.monotonic()
        result, _ = await self._ask(wire.POST_EXECUTION, report, AnswerReportResult, budget)
        return result


class SyncPostExecutionHook(Blocking):
    """Blocking `PostExecutionHook` for plain threads, with the same guarantees.

    with SyncPostExecutionHook() as hook:
        hook(session_id="s1", turn_id=result.turn_id, answer=answer)
    """

    def __init__(self, redis_url: str | None = None) -> None:
        self._hook = PostExecutionHook(redis_url)
        super().__init__(self._hook)

    def __call__(self, report: AnswerReport | Mapping[str, Any] | None = None, **fields: Any) -> AnswerReportResult:
        """Report an answer. Return the memories that it used, or a reason."""
        given = fields if report is None else report
        try:
            return self._wait_for(lambda: self._hook(given), seconds_of(given, DEFAULT_REPORT_DEADLINE_MS))
        except Unfinished:
            return report_not_done(Reason.DEADLINE)
