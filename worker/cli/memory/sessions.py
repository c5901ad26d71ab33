"""`meeseeks admin session`: shows and changes which memories a session has already received."""

from typing import Annotated, Any

import typer

from hooks.contract import SessionEvent, SessionEventType
from worker.cli.backend import call, is_served
from worker.cli.options import Tenant, settings_of
from worker.cli.output import answer, fail, printed_as_json, say, show, table
from worker.domain.operation import AnyOperation
from worker.operations.registry import SESSION_EVENT, SESSION_SHOW

BUDGET_S = 5.0

NO_SERVICE = "no service is running; start it with `meeseeks start`"

Session = Annotated[str, typer.Argument(help="Session id.")]
OneAgent = Annotated[str | None, typer.Option("--agent", help="Only this agent (default: all agents).")]

session = typer.Typer(no_args_is_help=True, help="Show and change which memories a session has received.")


@session.command("show")
def show_session(context: typer.Context, session_id: Session, tenant: Tenant = "default") -> None:
    """Show the memories in the context of each agent of a session."""
    found = _call(context, SESSION_SHOW, {"tenant": tenant, "session_id": session_id})
    if printed_as_json(found):
        return
    if not found["agents"]:
        say("unknown session")
    for agent in found["agents"]:
        pending = ", compaction in progress" if agent["compaction_pending"] else ""
        rows = [
            [entry["turn"], entry["id"], entry["version"], entry["block_id"][:12], entry["text"]]
            for entry in agent["shown"]
        ]
        title = f"{agent['agent_id']}: turn {agent['turn']}{pending}"
        show(table(title, ["turn", "id", "version", "block", "text"], rows))


@session.command("event")
def send_event(
    context: typer.Context,
    session_id: Session,
    kind: Annotated[SessionEventType, typer.Argument(metavar="TYPE", help="Event type, such as context.compacted.")],
    agent: OneAgent = None,
    turn: Annotated[str | None, typer.Option(help="Turn that failed.")] = None,
    parent: Annotated[str | None, typer.Option(help="Session from which this one was forked.")] = None,
    visible: Annotated[list[str] | None, typer.Option(help="Id of a visible block; repeat for several.")] = None,
    removed: Annotated[list[str] | None, typer.Option(help="Id of a removed block; repeat for several.")] = None,
    kept_turns: Annotated[int | None, typer.Option(min=0, help="Number of latest turns still visible.")] = None,
    tenant: Tenant = "default",
) -> None:
    """Report an event of a session, as the hook's `event` does."""
    event = {
        "type": kind,
        "session_id": session_id,
        "tenant": tenant,
        "agent_id": agent,
        "turn_id": turn,
        "parent_session_id": parent,
        "visible_blocks": visible or None,
        "removed_blocks": removed or None,
        "kept_turns": kept_turns,
    }
    _send(context, event)


@session.command("reset")
def reset_session(
    context: typer.Context,
    session_id: Session,
    agent: OneAgent = None,
    tenant: Tenant = "default",
) -> None:
    """Clear what a session has received, so that all memories can be injected again."""
    event = {"type": SessionEventType.SESSION_CLEARED, "session_id": session_id, "tenant": tenant, "agent_id": agent}
    _send(context, event)


def _send(context: typer.Context, event: dict[str, Any]) -> None:
    payload = SessionEvent.model_validate(event).model_dump(mode="json", exclude_none=True)
    done = _call(context, SESSION_EVENT, payload)
    answer(done, f"cleared: {done['forgotten']}, copied from parent: {done['adopted']}")


def _call(context: typer.Context, operation: AnyOperation, payload: dict[str, Any]) -> dict[str, Any]:
    settings = settings_of(context)
    if not is_served(settings):
        fail(NO_SERVICE)
    return call(context, operation, payload, budget=BUDGET_S)
