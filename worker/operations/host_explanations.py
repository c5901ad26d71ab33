"""One line per outcome of a host's hook, for `MEESEEKS_DEBUG=1`. Without any text of a message or memory."""

from typing import Any

from hooks.contract import InjectionRequest, InjectionResult, Outcome
from worker.hosts import HostProfile, HostRequest, Start
from worker.hosts.fields import text
from worker.text.counts import counted


def explain_injection(request: InjectionRequest, result: InjectionResult) -> str:
    """Return what came of a request, and for whom."""
    scope = {"user": request.scope.user, "project": request.scope.project}
    whose = ", ".join(f"{name} {value}" for name, value in scope.items() if value)
    found = counted(len(result.items)) if result.outcome is Outcome.INJECTED else "no memory"
    why = f" ({result.reason.value})" if result.reason else ""
    receipt = f", receipt {result.receipt_id}" if result.receipt_id else ""
    whose = f" for {whose}" if whose else ""
    return f"{found}: {result.outcome.value}{why}{whose}, {result.elapsed_ms:.0f} ms{receipt}"


def explain_start(understood: HostRequest | None) -> str:
    """Return why a starting subagent gets no memory; empty for anything else."""
    if not isinstance(understood, Start):
        return ""
    return f"no memory: the task of this subagent of type {understood.kind.agent_type} is not known for certain"


def explain_event(host: HostProfile, event: dict[str, Any]) -> str:
    """Return why an event asks for nothing."""
    name = text(event, "hook_event_name") or text(event, "action")
    known = [one.name for one in host.events]
    if not event:
        return "no memory: the event is not a JSON object with fields"
    if name and name not in known:
        return f"no memory: the event {name!r} is not used; used are {', '.join(known)}"
    if not name and len(known) > 1:
        return "no memory: the event does not say its name"
    if not text(event, "session_id") and host.name != "nexus":
        return "no memory: the event has no session_id"
    return "no memory: nothing to do for this event, or it lacks a field"
