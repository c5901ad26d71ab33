"""Handlers for sessions."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from hooks.contract import SessionEvent, SessionEventResult
from worker.domain.deadline import Deadline
from worker.domain.ledger import LedgerEntry
from worker.domain.operation import AnyHandler
from worker.injection.sessions import SessionService, shown_in
from worker.ports.store import StoreEngine

from .registry import SESSION_EVENT, SESSION_SHOW
from .requests import SessionRequest
from .results import AgentContext, SessionResult


class SessionOperations:
    def __init__(self, sessions: SessionService, engine: StoreEngine) -> None:
        self._sessions = sessions
        self._engine = engine

    def handlers(self) -> tuple[AnyHandler, ...]:
        return SESSION_EVENT.bind(self.event), SESSION_SHOW.bind(self.show)

    async def event(self, request: SessionEvent, deadline: Deadline) -> SessionEventResult:
        return await self._sessions.handle(request, deadline)

    async def show(self, request: SessionRequest, deadline: Deadline) -> SessionResult:
        """Return what a session was shown, without texts of memories that are no longer stored."""
        views = await self._sessions.show(request.tenant, request.session_id)
        ids = list({name for view in views.values() for name in view.shown})
        stored = {memory.id for memory in await self._engine.tenant(request.tenant).get(ids)} if ids else set()
        views = {agent: replace(view, shown=_without_texts(view.shown, stored)) for agent, view in views.items()}
        agents = [AgentContext.model_validate(agent) for agent in shown_in(views)]
        return SessionResult(session_id=request.session_id, agents=agents)


def _without_texts(shown: Mapping[str, LedgerEntry], stored: Collection[str]) -> dict[str, LedgerEntry]:
    return {name: entry if name in stored else replace(entry, text="") for name, entry in shown.items()}
