"""The `worker:post_execution` hook: tells the service what a worker answered, so that it learns which memories help."""

import time
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from . import wire
from .background import Blocking, Unfinished
from .contract import Reason
from .failing import elapsed_ms, report_not_done, safely
from .queue import QueueFault
from .queue_hook import QueueHook
from .sync import seconds_of
from .usage_contract import DEFAULT_REPORT_DEADLINE_MS, AnswerReport, AnswerReportResult


class PostExecutionHook(QueueHook):
    """Reports answers, after the run and beside the next one's start. It is optional: nothing else needs it.

    Calls never raise and never outlast the report's `deadline_ms` by more than a few milliseconds; a report that fails
    is lost, and nothing else is. One hook serves any number of calls at a time, on any event loop.

        async with PostExecutionHook() as hook:
            await hook(session_id="s1", turn_id=result.turn_id, answer=answer)
    """

    async def __call__(
        self, report: AnswerReport | Mapping[str, Any] | None = None, **fields: Any
    ) -> AnswerReportResult:
        """Report an answer, given as a model, a mapping or its fields; which memories it used, or the reason."""
        started = time.monotonic()
        result = await safely(self._send(fields if report is None else report, started), report_not_done)
        return result.model_copy(update={"elapsed_ms": elapsed_ms(started)})

    async def _send(self, given: AnswerReport | Mapping[str, Any], started: float) -> AnswerReportResult:
        report = given if isinstance(given, AnswerReport) else AnswerReport.model_validate(given)
        payload = report.model_dump_json(exclude_none=True).encode()
        budget = started + report.deadline_ms / 1000 - time.monotonic()
        reply = await self._guarded.ask(wire.POST_EXECUTION, payload, budget=budget)
        try:
            return AnswerReportResult.model_validate(reply.body)
        except ValidationError as error:
            raise QueueFault(Reason.BAD_REPLY) from error


class SyncPostExecutionHook(Blocking):
    """`PostExecutionHook` for callers that do not await. Never raises, and never late, even where the loop hangs.

    with SyncPostExecutionHook() as hook:
        hook(session_id="s1", turn_id=result.turn_id, answer=answer)
    """

    def __init__(self, redis_url: str | None = None) -> None:
        self._hook = PostExecutionHook(redis_url)
        super().__init__(self._hook)

    def __call__(self, report: AnswerReport | Mapping[str, Any] | None = None, **fields: Any) -> AnswerReportResult:
        """Report an answer; which memories it used, or the reason why that is not known."""
        given = fields if report is None else report
        try:
            return self._wait_for(lambda: self._hook(given), seconds_of(given, DEFAULT_REPORT_DEADLINE_MS))
        except Unfinished:
            return report_not_done(Reason.DEADLINE)
