"""The handler of native host hooks: it maps a host's event to an operation and the result to the host's output."""

from typing import Any

import structlog

from hooks.contract import InjectionRequest, InjectionResult, Scope, SessionEvent, SessionEventResult
from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError, NotFound
from worker.domain.operation import AnyHandler, Handler, HandlerResult, JsonObject, Undelivered, split_commit
from worker.hosts import HOSTS, Announce, Follow, HookCaller, HostProfile, HostRequest, Inject, Start
from worker.hosts.subagents import PendingSubagents

from .registry import HOST_HOOK
from .requests import HostHookRequest

log = structlog.get_logger()

DOCTOR_SESSION = "meeseeks-doctor-"
"""Prefix of session ids that are always served in `DOCTOR_TENANT`."""

DOCTOR_TENANT = "meeseeks-doctor"


class HostOperations:
    """Failures become the host's empty output and a log line."""

    def __init__(
        self,
        inject: Handler[InjectionRequest, InjectionResult],
        follow: Handler[SessionEvent, SessionEventResult],
        subagents: PendingSubagents,
    ) -> None:
        self._inject = inject
        self._follow = follow
        self._subagents = subagents

    def handlers(self) -> tuple[AnyHandler, ...]:
        return (HOST_HOOK.bind(self.hook),)

    async def hook(self, request: HostHookRequest, deadline: Deadline) -> HandlerResult[JsonObject]:
        """Return the host's native output. Raise `NotFound` for an unknown host."""
        host = profile_of(request.host)
        event = request.event if isinstance(request.event, dict) else {}
        understood = _understood(host, event, request)
        deadline = deadline.within(request.deadline_ms / 1000)
        try:
            return await self._output(host, event, understood, deadline)
        except (MeeseeksError, TimeoutError) as error:
            log.warning("host_hook_failed", host=host.name, error=type(error).__name__)
            return _nothing(host)

    async def _output(
        self, host: HostProfile, event: dict[str, Any], understood: HostRequest | None, deadline: Deadline
    ) -> HandlerResult[JsonObject]:
        match understood:
            case Inject():
                return await self._injected(host, event, understood.request, deadline)
            case Follow():
                result, _ = split_commit(await self._follow.run(understood.event, deadline))
                return JsonObject(host.followed(event, result)) if host.followed else _nothing(host)
            case Announce():
                await self._subagents.announce(understood.kind, understood.task)
            case Start():
                task = await self._subagents.start(understood.kind)
                if task is not None:
                    return await self._injected(host, event, understood.request_for(task), deadline)
        return _nothing(host)

    async def _injected(
        self, host: HostProfile, event: dict[str, Any], request: InjectionRequest, deadline: Deadline
    ) -> HandlerResult[JsonObject]:
        result, commit = split_commit(await self._inject.run(request, deadline))
        output = JsonObject(host.output(event, result))
        return Undelivered(output, commit) if commit else output


def profile_of(name: str) -> HostProfile:
    """Return the host of this name. Raise `NotFound` with the known names otherwise."""
    host = HOSTS.get(name)
    if host is None:
        raise NotFound(f"unknown host {name!r}; the hosts are {', '.join(sorted(HOSTS))}")
    return host


def _nothing(host: HostProfile) -> JsonObject:
    return JsonObject(dict(host.nothing))


def _understood(host: HostProfile, event: dict[str, Any], request: HostHookRequest) -> HostRequest | None:
    understood = host.understand(event, HookCaller(request.scope, request.deadline_ms))
    if understood is None or not _session_of(understood).startswith(DOCTOR_SESSION):
        return understood
    return host.understand(event, HookCaller(Scope(tenant=DOCTOR_TENANT), request.deadline_ms))


def _session_of(understood: HostRequest) -> str:
    match understood:
        case Inject():
            return understood.request.session_id
        case Follow():
            return understood.event.session_id
        case Announce() | Start():
            return understood.kind.session_id
