"""The handler of native host hooks: it maps a host's event to an operation and the result to the host's output."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from hooks.contract import (
    InjectionRequest,
    InjectionResult,
    RecentMessage,
    Scope,
    SessionEvent,
    SessionEventResult,
    SessionEventType,
)
from hooks.protocol.repository import by_path
from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError, QueueError
from worker.domain.kinds import ReceiptKeep
from worker.domain.operation import AnyHandler, Handler, HandlerResult, JsonObject, Undelivered, split_commit
from worker.hosts import Announce, Follow, HookCaller, HostProfile, HostRequest, Inject, Start, profile_of
from worker.hosts.fields import text, zone_in
from worker.hosts.state import HostState, SaidTurn, SessionOf, earlier_texts, names_of
from worker.hosts.subagents import PendingSubagents
from worker.injection.redaction import without_secrets
from worker.query.noise import written
from worker.settings.injection import Enrichment, InjectionConfig
from worker.text.counts import counted

from .background_transcripts import TranscriptNotes, source_of
from .host_explanations import explain_event, explain_injection, explain_start
from .registry import HOST_HOOK
from .requests import HostHookRequest, HostScope

log = structlog.get_logger()

DOCTOR_SESSION = "meeseeks-doctor-"
"""Prefix of session ids that are always served in `DOCTOR_TENANT`."""

DOCTOR_TENANT = "meeseeks-doctor"

STATE_LIMIT = 0.2
"""Seconds that looking up the project or earlier turns may take; a request goes on without them."""

REPEATABLE = frozenset({SessionEventType.SESSION_CLEARED, SessionEventType.CONTEXT_COMPACTED})
"""Events that would lose something if they were applied a second time, after a turn."""


@dataclass(frozen=True, slots=True)
class OwnHandlers:
    """The operations that hosts' events are mapped to."""

    inject: Handler[InjectionRequest, InjectionResult]
    follow: Handler[SessionEvent, SessionEventResult]


@dataclass(frozen=True, slots=True)
class _Answer:
    """A native output, what to commit once it is delivered, and an explanation for people."""

    output: dict[str, Any]
    explanation: str
    commit: tuple[str, str] | None = None


class HostOperations:
    """Failures become the host's empty output and a log line.

    `config_for` returns an agent's settings, and `named` the user's own name for the identity of a project. Without
    `notes`, transcripts are not captured from.
    """

    def __init__(
        self,
        own: OwnHandlers,
        subagents: PendingSubagents,
        state: HostState,
        config_for: Callable[[str], InjectionConfig],
        named: Callable[[str], str | None],
        notes: TranscriptNotes | None = None,
    ) -> None:
        self._own = own
        self._subagents = subagents
        self._state = state
        self._config_for = config_for
        self._named = named
        self._notes = notes

    def handlers(self) -> tuple[AnyHandler, ...]:
        return (HOST_HOOK.bind(self.hook),)

    async def hook(self, request: HostHookRequest, deadline: Deadline) -> HandlerResult[JsonObject]:
        """Return the host's native output. Raise `NotFound` for an unknown host."""
        host = profile_of(request.host)
        event = request.event if isinstance(request.event, dict) else {}
        deadline = deadline.within(request.deadline_ms / 1000)
        try:
            scope = await self._scope(event, request.scope, deadline)
            answer = await self._answered(host, event, _understood(host, event, scope, request), deadline)
            await self._noted(host, event, scope, deadline)
        except (MeeseeksError, TimeoutError) as error:
            log.warning("host_hook_failed", host=host.name, error=type(error).__name__)
            answer = _Answer(dict(host.nothing), f"no memory: {error or type(error).__name__}")
        output = JsonObject(answer.output)
        if request.scope.explain:
            output = JsonObject({"output": answer.output, "explanation": answer.explanation})
        return Undelivered(output, answer.commit) if answer.commit else output

    async def _noted(self, host: HostProfile, event: dict[str, Any], scope: Scope, deadline: Deadline) -> None:
        """Note that the transcript of a session has grown, to capture from it later."""
        source = source_of(host, event, scope)
        if self._notes is not None and source is not None and not source.session_id.startswith(DOCTOR_SESSION):
            await self._notes.note(host, event, source, deadline)

    async def _scope(self, event: dict[str, Any], given: HostScope, deadline: Deadline) -> Scope:
        """Return the scope of an event, with the name of the project that its folder belongs to."""
        scope = Scope(**given.model_dump(include=set(Scope.model_fields)))
        identity, folder = given.repository or "", given.folder or ""
        if not identity:
            identity, folder = by_path(text(event, "cwd"))
        if scope.project or not identity:
            return scope
        return scope.model_copy(update={"project": await self._project(scope.tenant, identity, folder, deadline)})

    async def _project(self, tenant: str, identity: str, folder: str, deadline: Deadline) -> str:
        """Return a project's name; its identity, which no other project has, if names are not available."""
        try:
            async with asyncio.timeout(deadline.within(STATE_LIMIT).remaining()):
                own = await asyncio.to_thread(self._named, identity)
                return own or await self._state.project_name(tenant, identity, names_of(identity, folder))
        except (QueueError, TimeoutError):
            log.warning("project_names_unavailable")
            return identity

    async def _answered(
        self, host: HostProfile, event: dict[str, Any], understood: HostRequest | None, deadline: Deadline
    ) -> _Answer:
        match understood:
            case Inject():
                request = await self._with_earlier(understood.request, deadline)
                return await self._injected(host, event, request, deadline)
            case Follow():
                return await self._followed(host, event, understood.event, deadline)
            case Announce():
                await self._subagents.announce(understood.kind, understood.task)
                return _Answer(dict(host.nothing), f"kept the task of a subagent of type {understood.kind.agent_type}")
            case Start():
                task = await self._subagents.start(understood.kind)
                if task is not None:
                    return await self._injected(host, event, understood.request_for(task), deadline)
        return _Answer(dict(host.nothing), explain_start(understood) or explain_event(host, event))

    async def _followed(
        self, host: HostProfile, event: dict[str, Any], followed: SessionEvent, deadline: Deadline
    ) -> _Answer:
        """Apply a session event, unless it is the last one sent again."""
        session = SessionOf(followed.tenant, followed.session_id)
        digest = hashlib.sha256(json.dumps(event, sort_keys=True).encode()).hexdigest()
        again = await self._state.repeats(session, digest) and followed.type in REPEATABLE
        result = SessionEventResult(done=True)
        if not again:
            result, _ = split_commit(await self._own.follow.run(followed, deadline))
        if followed.type is SessionEventType.SESSION_CLEARED and not again:
            await self._state.forget_turns(session)
        output = host.followed(event, result) if host.followed else dict(host.nothing)
        what = "sent again, nothing changed" if again else f"{counted(result.forgotten)} may be shown again"
        return _Answer(output, f"{followed.type.value}: {what}")

    async def _with_earlier(self, request: InjectionRequest, deadline: Deadline) -> InjectionRequest:
        """Add what the session's last turns said, if the host does not."""
        config = self._config_for(request.agent_id)
        if request.recent_messages or config.query_enrichment is Enrichment.OFF:
            return request
        if config.receipt_keep is not ReceiptKeep.EVERYTHING:
            return request
        session = SessionOf(request.scope.tenant, request.session_id)
        asker = json.dumps([request.agent_id, request.scope.user, request.scope.project, request.scope.channel])
        said = SaidTurn(request.turn_id, asker, without_secrets(" ".join(written(request.message).split())))
        try:
            async with asyncio.timeout(deadline.within(STATE_LIMIT).remaining()):
                kept = await self._state.earlier(session, said)
        except (QueueError, TimeoutError):
            log.warning("earlier_turns_unavailable")
            return request
        earlier = tuple(RecentMessage(role="user", content=content) for content in earlier_texts(kept, said))
        return request.model_copy(update={"recent_messages": earlier})

    async def _injected(
        self, host: HostProfile, event: dict[str, Any], request: InjectionRequest, deadline: Deadline
    ) -> _Answer:
        if request.tz is None:
            request = request.model_copy(update={"tz": zone_in(event)})
        result, commit = split_commit(await self._own.inject.run(request, deadline))
        signed = self._config_for(request.agent_id).show_count
        return _Answer(host.output(event, result, signed=signed), explain_injection(request, result), commit)


def _understood(host: HostProfile, event: dict[str, Any], scope: Scope, request: HostHookRequest) -> HostRequest | None:
    caller = HookCaller(scope, request.deadline_ms)
    understood = host.understand(event, caller)
    if understood is None or not _session_of(understood).startswith(DOCTOR_SESSION):
        return understood
    return host.understand(event, replace(caller, scope=Scope(tenant=DOCTOR_TENANT)))


def _session_of(understood: HostRequest) -> str:
    match understood:
        case Inject():
            return understood.request.session_id
        case Follow():
            return understood.event.session_id
        case Announce() | Start():
            return understood.kind.session_id
