"""Handlers for upkeep. A run goes on in the background; callers poll its progress."""

from collections.abc import Callable
from itertools import chain

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import OperationError
from worker.domain.operation import AnyHandler
from worker.domain.upkeep import RunState, UpkeepRun
from worker.ports.store import StoreEngine
from worker.ports.upkeep import UpkeepRuns
from worker.text.rendering import shown_text
from worker.upkeep.runs import UpkeepRunner
from worker.upkeep.steps import UpkeepSteps

from . import registry
from .requests import IdRequest, UpkeepMakeRequest, UpkeepRequest, UpkeepShowRequest
from .results import UpkeepMakeResult, UpkeepReport

NO_SERVICE = "upkeep needs a running service; start one with `meeseeks start`"
SHOWN_CHARS = 200
PAGE = 200


class UpkeepOperations:
    """Starts runs and shows them."""

    def __init__(self, runner: UpkeepRunner, runs: UpkeepRuns, store: Callable[[], StoreEngine]) -> None:
        self._runner = runner
        self._runs = runs
        self._store = store

    def handlers(self) -> tuple[AnyHandler, ...]:
        return registry.UPKEEP.bind(self.start), registry.UPKEEP_SHOW.bind(self.show)

    async def start(self, request: UpkeepRequest, deadline: Deadline) -> UpkeepReport:
        return UpkeepReport(run=await self._runner.start(request.tenant, apply=request.apply), texts={})

    async def show(self, request: UpkeepShowRequest, deadline: Deadline) -> UpkeepReport:
        run = await self._runs.read(request.tenant, request.id)
        going_on = run.state is RunState.RUNNING
        return UpkeepReport(run=run, texts={} if going_on else await self._texts(run))

    async def _texts(self, run: UpkeepRun) -> dict[str, str]:
        named = chain.from_iterable((step.memory, *step.others) for step in run.steps)
        ids = list(dict.fromkeys([*named, *(one.id for one in run.unused)]))
        found: dict[str, str] = {}
        for start in range(0, len(ids), PAGE):
            memories = await self._store().tenant(run.tenant).get(ids[start : start + PAGE])
            found |= {memory.id: shown_text(memory.content, SHOWN_CHARS, mask=True) for memory in memories}
        return found


class UpkeepStepOperations:
    """Makes the steps of runs, and undoes runs."""

    def __init__(self, steps: UpkeepSteps, runs: UpkeepRuns) -> None:
        self._steps = steps
        self._runs = runs

    def handlers(self) -> tuple[AnyHandler, ...]:
        return registry.UPKEEP_MAKE.bind(self.make), registry.UPKEEP_UNDO.bind(self.undo)

    async def make(self, request: UpkeepMakeRequest, deadline: Deadline) -> UpkeepMakeResult:
        return UpkeepMakeResult(steps=await self._steps.make(request.run, request.steps))

    async def undo(self, request: IdRequest, deadline: Deadline) -> UpkeepRun:
        """Raise `NotFound`, or `OperationError` if the run goes on or has changed nothing."""
        run = await self._runs.read(request.tenant, request.id)
        if run.state is RunState.RUNNING:
            raise OperationError(Reason.CONFLICT, f"the run {run.id} goes on; undo it when it has ended")
        if not run.apply:
            raise OperationError(Reason.BAD_REQUEST, f"the run {run.id} only made a report; there is nothing to undo")
        if run.state is RunState.UNDONE:
            return run
        undone = await self._steps.take_back(run)
        await self._runs.write(undone)
        return undone


def unavailable() -> tuple[AnyHandler, ...]:
    """Return handlers for a process without a service, which say what to do."""

    async def refuse(request: object, deadline: Deadline) -> UpkeepReport:
        raise OperationError(Reason.BAD_REQUEST, NO_SERVICE)

    operations = registry.UPKEEP, registry.UPKEEP_SHOW, registry.UPKEEP_UNDO
    return tuple(operation.bind(refuse) for operation in operations)  # type: ignore[arg-type]
