"""Handlers that evaluate labelled cases in the background, one evaluation at a time."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import OperationError
from worker.domain.operation import AnyHandler
from worker.ports.evaluations import EvaluationPhase, Evaluations, EvaluationState
from worker.receipts.cases import case_file
from worker.receipts.dry_runs import prompt_of

from .registry import EVALUATION_START, EVALUATION_STOP, EVALUATIONS
from .requests import EvaluationRequest, EvaluationsRequest, IdRequest
from .results import CaseSet, EvaluationList

OWN, SHIPPED = "own", "shipped"
"""Names of the tenant's own cases, and of all that are shipped."""

TASKS = "tasks.jsonl"


class EvaluationOperations:
    """`cases` is the folder of tenants' cases, `worlds` that of the shipped ones, `prompts` that of base prompts."""

    def __init__(self, evaluations: Evaluations, cases: Path, worlds: Path, prompts: Path) -> None:
        self._evaluations = evaluations
        self._cases = cases
        self._worlds = worlds
        self._prompts = prompts

    def handlers(self) -> tuple[AnyHandler, ...]:
        return (
            EVALUATIONS.bind(self.latest),
            EVALUATION_START.bind(self.start),
            EVALUATION_STOP.bind(self.stop),
        )

    async def latest(self, request: EvaluationsRequest, deadline: Deadline) -> EvaluationList:
        latest = await self._evaluations.latest(request.tenant)
        if request.running:
            return EvaluationList(evaluations=[one for one in latest if one.phase is EvaluationPhase.RUNNING], sets=[])
        sets = await asyncio.to_thread(lambda: list(self._sets(request.tenant)))
        return EvaluationList(evaluations=latest, sets=sets)

    async def start(self, request: EvaluationRequest, deadline: Deadline) -> EvaluationState:
        """Begin an evaluation. Raise `OperationError` for an unknown set, an invalid prompt, or while another runs."""
        labelled = await asyncio.to_thread(self._labelled, request.tenant, request.order.cases)
        await asyncio.to_thread(prompt_of, request.order.prompt, self._prompts)
        return await self._evaluations.start(request.tenant, request.order, labelled)

    async def stop(self, request: IdRequest, deadline: Deadline) -> EvaluationState:
        return await self._evaluations.stop(request.tenant, request.id)

    def _labelled(self, tenant: str, name: str) -> Path | None:
        if name not in {one.name for one in self._sets(tenant)}:
            hint = "label a request first, with the buttons of its page" if name == OWN else "choose one of the list"
            raise OperationError(Reason.BAD_REQUEST, f"cases: there are none of the name {name}; {hint}")
        if name == OWN:
            return case_file(self._cases, tenant)
        return None if name == SHIPPED else self._worlds / name

    def _sets(self, tenant: str) -> Iterator[CaseSet]:
        """Return the sets of cases that exist, the tenant's own first."""
        if (own := _tasks(case_file(self._cases, tenant))) > 0:
            yield CaseSet(name=OWN, tasks=own)
        worlds = [
            CaseSet(name=path.parent.name, tasks=_tasks(path)) for path in sorted(self._worlds.glob(f"*/{TASKS}"))
        ]
        yield CaseSet(name=SHIPPED, tasks=sum(one.tasks for one in worlds))
        yield from worlds


def _tasks(path: Path) -> int:
    """Return how many tasks a file has: lines with a message."""
    try:
        return sum('"message"' in line for line in path.read_text(encoding="utf-8").splitlines())
    except OSError:
        return 0
