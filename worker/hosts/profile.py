"""Host profiles: the events of a host, the requests for them, and the format of answers.

Events are untrusted: mapping functions never raise, and return `None` if something they need is missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hooks.contract import InjectionRequest, InjectionResult, RenderOptions, Retention, Scope, SessionEvent
from hooks.contract import SessionEventResult as EventResult
from worker.domain.deadline import DEFAULT_HOOK_DEADLINE_MS

Native = Mapping[str, Any]
"""A native event or answer: a JSON object in the host's format."""


class Role(StrEnum):
    """The purpose of a host's event."""

    INJECTS = "injects memories"
    ANNOUNCES = "announces a subagent's task"
    FOLLOWS = "updates the ledger"


@dataclass(frozen=True, slots=True)
class HostEvent:
    """A supported event; `matcher` is the host's filter for it.

    `installed` tells whether a hook for it is installed, `over_http` whether the host can send it to a URL.
    """

    name: str
    role: Role
    matcher: str | None = None
    installed: bool = True
    over_http: bool = False


@dataclass(frozen=True, slots=True)
class HookCaller:
    """The sender of an event: the scope it has access to, and its deadline."""

    scope: Scope = field(default_factory=Scope)
    deadline_ms: int = DEFAULT_HOOK_DEADLINE_MS


@dataclass(frozen=True, slots=True)
class Inject:
    """The event requests memories for a message."""

    request: InjectionRequest


@dataclass(frozen=True, slots=True)
class Follow:
    """The event changes the context of a conversation."""

    event: SessionEvent


@dataclass(frozen=True, slots=True)
class SubagentKind:
    """What a host tells about a subagent both before and when it starts."""

    tenant: str
    session_id: str
    agent_type: str


@dataclass(frozen=True, slots=True)
class SubagentTask:
    """The task of a subagent; `turn_id` identifies the call that starts it."""

    prompt: str
    description: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Announce:
    """A subagent of this kind is about to start with this task."""

    kind: SubagentKind
    task: SubagentTask


@dataclass(frozen=True, slots=True)
class Start:
    """A subagent of this kind starts; `request_for` creates the request once its task is known."""

    kind: SubagentKind
    request_for: Callable[[SubagentTask], InjectionRequest]


HostRequest = Inject | Follow | Announce | Start


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """Where a host reads its hooks: `user` in the home folder and `project` in the project folder.

    `others` are files that may duplicate a hook; `plugins` tells whether the files list plugins that may do so.
    Commands run in the user's login shell or in plain `sh`. `note` tells the user what remains to be done. `mcp` says
    where MCP servers go.
    """

    user: str
    project: str
    others: tuple[str, ...] = ()
    over_http: bool = False
    plugins: bool = False
    login_shell: bool = False
    note: str = ""
    mcp: "McpFiles | None" = None


class Syntax(StrEnum):
    """How a file with MCP servers is written."""

    JSON = "json"
    TOML = "toml"


@dataclass(frozen=True, slots=True)
class McpFiles:
    """Where a host reads its MCP servers, like `SettingsFiles`."""

    user: str
    project: str
    syntax: Syntax
    over_http: bool = False


@dataclass(frozen=True, slots=True)
class HostProfile:
    """A host and the functions that translate between its events and requests.

    `limit` describes what the host does to longer answers; `render` keeps blocks within it. `answer` converts a block
    to native output, `followed` the result of a session event. `faults` checks a native output. `example` creates an
    event from a session id and a message. `paste` is for hosts without `settings`, which users set up by hand. `sign`
    shows the user how many memories an event got. `transcripts` is the host's folder of transcripts, below the home
    folder.
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
    about_nothing: Callable[[InjectionResult], Native] = lambda _: {}
    sign: Callable[[Native, int], Native] = lambda event, count: {}
    followed: Callable[[Native, EventResult], dict[str, Any]] | None = None
    settings: SettingsFiles | None = None
    paste: str = ""
    transcripts: str | None = None

    def output(self, event: Native, result: InjectionResult, *, signed: bool = True) -> dict[str, Any]:
        """Return the native output for `result`; without a block, `nothing` and what `about_nothing` adds."""
        if not result.memory_context:
            return {**self.nothing, **self.about_nothing(result)}
        return {**self.answer(event, result), **(self.sign(event, len(result.items)) if signed else {})}
