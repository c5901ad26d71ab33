"""Handlers for sessions."""

from hooks.contract import SessionEvent, SessionEventResult
from worker.domain.deadline import Deadline
from worker.domain.operation import AnyHandler
from worker.injection.sessions import SessionService, shown_in

from .registry import SESSION_EVENT, SESSION_SHOW
from .requests import SessionRequest
from .results import AgentContext, SessionResult


class SessionOperations:
    def __init__(self, sessions: SessionService) -> None:
        self._sessions = sessions

    def handlers(self) -> tuple[AnyHandler, ...]:
        return SESSION_EVENT.bind(self.event), SESSION_SHOW.bind(self.show)

    async def event(self, request: SessionEvent, deadline: Deadline) -> SessionEventResult:
        return await self._sessions.handle(request, deadline)

    async def show(self, request: SessionRequest, deadline: Deadline) -> SessionResult:
        views = await self._sessions.show(request.tenant, request.session_id)
        agents = [AgentContext.model_validate(agent) for agent in shown_in(views)]
        return SessionResult(session_id=request.session_id, agents=agents)
