"""The operation behind every native hook: an event of a host in, what that host is to print or answer out.

No decisions here: the host's mapper says what an event asks for, and the operations that serve everybody do it.
"""

from typing import Any

import structlog
from pydantic import Field

from hooks.contract import MAX_DEADLINE_MS, InjectionRequest, InjectionResult, Scope, SessionEventResult, Text
from hooks.wire import HOST_HOOK
from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError, NotFound
from worker.domain.memory import DomainModel
from worker.domain.operation import Operation, OperationAnswer
from worker.hosts import HOSTS, Announce, Follow, HookCaller, HostProfile, HostRequest, Inject, Start
from worker.hosts.profile import DEFAULT_HOOK_DEADLINE_MS
from worker.hosts.subagents import PendingSubagents

log = structlog.get_logger()

CANARY_SESSION = "meeseeks-doctor-"
"""Sessions whose ids begin so are served in a tenant of their own, `CANARY_TENANT`, whoever calls."""

CANARY_TENANT = "meeseeks-doctor"


class HostHookPayload(DomainModel):
    """A native event of a host. `scope` is who calls: what it says goes before what the event says."""

    host: Text
    event: Any
    deadline_ms: int = Field(default=DEFAULT_HOOK_DEADLINE_MS, gt=0, le=MAX_DEADLINE_MS)
    scope: Scope = Scope()


class HostOperations:
    """Native in, native out. What fails below becomes the host's own "nothing", and a line in the log."""

    def __init__(self, inject: Operation, follow: Operation, subagents: PendingSubagents) -> None:
        self._inject = inject
        self._follow = follow
        self._subagents = subagents

    def table(self) -> dict[str, Operation]:
        return {HOST_HOOK: self.hook}

    async def hook(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        """The host's native output. Raises `NotFound` for a host that nobody knows."""
        given = HostHookPayload.model_validate(payload)
        host = profile_of(given.host)
        event = given.event if isinstance(given.event, dict) else {}
        requested = _requested(host, event, given)
        deadline = deadline.within(given.deadline_ms / 1000)
        try:
            return await self._granted(host, event, requested, deadline)
        except (MeeseeksError, TimeoutError) as error:
            log.warning("host_hook_failed", host=host.name, error=type(error).__name__)
            return OperationAnswer(dict(host.nothing))

    async def _granted(
        self, host: HostProfile, event: dict[str, Any], requested: HostRequest | None, deadline: Deadline
    ) -> OperationAnswer:
        match requested:
            case Inject():
                return await self._injected(host, event, requested.request, deadline)
            case Follow():
                return await self._followed(host, event, requested, deadline)
            case Announce():
                await self._subagents.announce(requested.kind, requested.task)
            case Start():
                task = await self._subagents.start(requested.kind)
                if task is not None:
                    return await self._injected(host, event, requested.request_for(task), deadline)
        return OperationAnswer(dict(host.nothing))

    async def _injected(
        self, host: HostProfile, event: dict[str, Any], request: InjectionRequest, deadline: Deadline
    ) -> OperationAnswer:
        found = await self._inject(request.model_dump(mode="json"), deadline)
        return OperationAnswer(host.output(event, InjectionResult.model_validate(found.body)), found.commit)

    async def _followed(
        self, host: HostProfile, event: dict[str, Any], requested: Follow, deadline: Deadline
    ) -> OperationAnswer:
        told = await self._follow(requested.event.model_dump(mode="json"), deadline)
        if host.followed is None:
            return OperationAnswer(dict(host.nothing))
        return OperationAnswer(host.followed(event, SessionEventResult.model_validate(told.body)))


def profile_of(name: str) -> HostProfile:
    """The host of this name. Raises `NotFound` with the names that there are."""
    found = HOSTS.get(name)
    if found is None:
        raise NotFound(f"there is no host {name!r}; the hosts are {', '.join(sorted(HOSTS))}")
    return found


def _requested(host: HostProfile, event: dict[str, Any], given: HostHookPayload) -> HostRequest | None:
    requested = host.understand(event, HookCaller(given.scope, given.deadline_ms))
    if requested is None or not _session_of(requested).startswith(CANARY_SESSION):
        return requested
    return host.understand(event, HookCaller(Scope(tenant=CANARY_TENANT), given.deadline_ms))


def _session_of(requested: HostRequest) -> str:
    match requested:
        case Inject():
            return requested.request.session_id
        case Follow():
            return requested.event.session_id
        case Announce() | Start():
            return requested.kind.session_id
