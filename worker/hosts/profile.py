"""What a host is: the events that it sends, what they ask for, and how it takes an answer. Frozen values, no I/O.

One host is one module with its mapper and one row of `worker.hosts.HOSTS`. A mapper is handed whatever the host, or
anybody in its name, sends: it never raises, and where something that it needs is missing it asks for nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hooks.contract import InjectionRequest, InjectionResult, RenderOptions, Retention, Scope, SessionEvent
from hooks.contract import SessionEventResult as EventResult

Native = Mapping[str, Any]
"""A native event, or the native answer to one: a JSON object of the host's own."""

DEFAULT_HOOK_DEADLINE_MS = 2800
"""Most milliseconds of a hook call where nobody says otherwise: the host's own limit is a second more."""


class Role(StrEnum):
    """What an event of the host is for."""

    INJECTS = "gets memory"
    ANNOUNCES = "tells the task of a subagent"
    FOLLOWS = "keeps the ledger right"


@dataclass(frozen=True, slots=True)
class HostEvent:
    """An event that the mapper knows; `matcher` is the host's filter for it, `installed` whether it is needed.

    `over_http` says whether the host can send it to a URL.
    """

    name: str
    role: Role
    matcher: str | None = None
    installed: bool = True
    over_http: bool = False


@dataclass(frozen=True, slots=True)
class HookCaller:
    """Who sends an event: the scope that his access gives him, and the milliseconds that he waits at most."""

    scope: Scope = field(default_factory=Scope)
    deadline_ms: int = DEFAULT_HOOK_DEADLINE_MS


@dataclass(frozen=True, slots=True)
class Inject:
    """The event asks for the memory of a message."""

    request: InjectionRequest


@dataclass(frozen=True, slots=True)
class Follow:
    """The event changes what a conversation's context holds."""

    event: SessionEvent


@dataclass(frozen=True, slots=True)
class SubagentKind:
    """All that a host says of a subagent both before it exists and when it starts."""

    tenant: str
    session_id: str
    agent_type: str


@dataclass(frozen=True, slots=True)
class SubagentTask:
    """What a subagent is about to be asked; `turn_id` names the call that asks it."""

    prompt: str
    description: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Announce:
    """A subagent of this kind is about to be started with this task."""

    kind: SubagentKind
    task: SubagentTask


@dataclass(frozen=True, slots=True)
class Start:
    """A subagent of this kind starts; `request_for` is what to ask once its task is known."""

    kind: SubagentKind
    request_for: Callable[[SubagentTask], InjectionRequest]


HostRequest = Inject | Follow | Announce | Start
"""What an event asks for; `None` stands for nothing."""


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """Where a host reads its hooks: a file of the user's and one of the project, from home and project folder.

    `others` may hold a second copy of a hook, `plugins` says whether the files name plugins that may. Commands are run
    by the user's login shell or by plain `sh`. `note` is what the user has still to do.
    """

    user: str
    project: str
    others: tuple[str, ...] = ()
    over_http: bool = False
    plugins: bool = False
    login_shell: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class HostProfile:
    """A host: what it can do, and the two directions of its mapper.

    `limit` says in words what the host does to longer answers, `render` is what keeps a block within it. `answer`
    makes the native output of a block, `followed` that of a session event; both get the native event. `faults` says
    what the host would not take of an output. `example` is an event that asks for memory, of a session and with a
    message. A host without `settings` is given `paste` to put in by hand.
    """

    name: str
    title: str
    retention: Retention
    render: RenderOptions
    limit: str
    events: tuple[HostEvent, ...]
    understand: Callable[[Native, HookCaller], HostRequest | None]
    answer: Callable[[Native, InjectionResult], dict[str, Any]]
    faults: Callable[[Native, Any], list[str]]
    example: Callable[[str, str], dict[str, Any]]
    nothing: Native = field(default_factory=dict)
    followed: Callable[[Native, EventResult], dict[str, Any]] | None = None
    settings: SettingsFiles | None = None
    paste: str = ""

    def output(self, event: Native, result: InjectionResult) -> dict[str, Any]:
        """What the host is given for `result`: its own "nothing" where there is no block."""
        return self.answer(event, result) if result.memory_context else dict(self.nothing)
