"""Operations on sessions."""

from typing import Any

from hooks.contract import Key, SessionEvent
from hooks.wire import SESSION_EVENT
from worker.domain.deadline import Deadline
from worker.domain.operation import Operation, OperationAnswer
from worker.injection.sessions import SessionService, shown_in

from .payloads import TenantPayload

SESSION_SHOW = "session_show"


class SessionPayload(TenantPayload):
    session_id: Key


class SessionOperations:
    """Take what happened to sessions, and say what they have been shown."""

    def __init__(self, sessions: SessionService) -> None:
        self._sessions = sessions

    def table(self) -> dict[str, Operation]:
        return {SESSION_EVENT: self.event, SESSION_SHOW: self.show}

    async def event(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        result = await self._sessions.handle(SessionEvent.model_validate(payload), deadline)
        return OperationAnswer(result.model_dump(mode="json"))

    async def show(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = SessionPayload.model_validate(payload)
        views = await self._sessions.show(wanted.tenant, wanted.session_id)
        return OperationAnswer({"session_id": wanted.session_id, "agents": shown_in(views)})
