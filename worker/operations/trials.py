"""Handlers that try messages and show the prompt of an agent's model."""

from uuid import uuid4

from hooks.contract import InjectionRequest, Scope
from worker.domain.deadline import Deadline
from worker.domain.operation import AnyHandler
from worker.receipts.trial_models import PromptText
from worker.receipts.trials import Trials

from .registry import PROMPT, TRY
from .requests import PromptRequest, TryRequest
from .results import TryResult


class TrialOperations:
    def __init__(self, trials: Trials) -> None:
        self._trials = trials

    def handlers(self) -> tuple[AnyHandler, ...]:
        return TRY.bind(self.try_message), PROMPT.bind(self.prompt)

    async def try_message(self, request: TryRequest, deadline: Deadline) -> TryResult:
        tried = _first_of_a_session(request)
        if request.model:
            return TryResult(trials=await self._trials.with_model(tried, request.prompt, deadline))
        return TryResult(trials=await self._trials.at_once(tried, deadline))

    async def prompt(self, request: PromptRequest, deadline: Deadline) -> PromptText:
        return await self._trials.prompt(request.agent_id, shipped=request.shipped)


def _first_of_a_session(request: TryRequest) -> InjectionRequest:
    """Return the request that begins a session with this message."""
    scope = Scope(tenant=request.tenant, user=request.user, project=request.project, channel=request.channel)
    return InjectionRequest(
        session_id=f"playground-{uuid4().hex}", agent_id=request.agent_id, message=request.message, scope=scope
    )
