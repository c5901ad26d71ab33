"""Commands about sessions: what they have been shown, and what happened to them."""

from typing import Annotated, Any

import typer
from pydantic import ValidationError

from hooks.contract import SessionEvent, SessionEventType
from hooks.wire import SESSION_EVENT
from worker.bootstrap.opening import embedded_is_up
from worker.cli.backend import open_client
from worker.cli.options import AsJson, Tenant, run, settings_of
from worker.cli.output import fail, print_json, say, show, table
from worker.operations.sessions import SESSION_SHOW

BUDGET = 5.0
"""Seconds that an event or a look may take."""

NO_SERVICE = "no service is running, and only a running service knows sessions; start one with `meeseeks up`"

Session = Annotated[str, typer.Argument(help="The conversation.")]
OneAgent = Annotated[str | None, typer.Option("--agent", help="This agent alone; without it, every agent.")]

session = typer.Typer(no_args_is_help=True, help="What conversations have been shown, and what happened to them.")


@session.command("show")
def show_session(
    context: typer.Context, session_id: Session, tenant: Tenant = "default", as_json: AsJson = False
) -> None:
    """Show the memories that a session's agents have in their context, as far as the service knows."""
    found = _call(context, SESSION_SHOW, {"tenant": tenant, "session_id": session_id}, as_json)
    if as_json:
        print_json(found)
    elif not found["agents"]:
        say("nothing is known of this session")
    for agent in found["agents"] if not as_json else ():
        pending = ", a compaction has begun" if agent["compaction_pending"] else ""
        rows = [
            [entry["turn"], entry["id"], entry["version"], entry["block_id"][:12], entry["text"]]
            for entry in agent["shown"]
        ]
        show(
            table(
                f"{agent['agent_id']}: turn {agent['turn']}{pending}", ["turn", "id", "version", "block", "text"], rows
            )
        )


@session.command("event")
def send_event(
    context: typer.Context,
    session_id: Session,
    kind: Annotated[SessionEventType, typer.Argument(metavar="TYPE", help="What happened, such as context.compacted.")],
    agent: OneAgent = None,
    turn: Annotated[str | None, typer.Option(help="The turn that failed.")] = None,
    parent: Annotated[str | None, typer.Option(help="The session that this one was forked from.")] = None,
    visible: Annotated[list[str] | None, typer.Option(help="Id of a block still visible; may be repeated.")] = None,
    removed: Annotated[list[str] | None, typer.Option(help="Id of a block that is gone; may be repeated.")] = None,
    kept_turns: Annotated[
        int | None, typer.Option(min=0, help="Blocks of the last so many turns are still there.")
    ] = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Tell what happened to a session, as the hook's `event` would."""
    event = {
        "type": kind.value,
        "session_id": session_id,
        "tenant": tenant,
        "agent_id": agent,
        "turn_id": turn,
        "parent_session_id": parent,
        "visible_blocks": visible or None,
        "removed_blocks": removed or None,
        "kept_turns": kept_turns,
    }
    _tell(context, event, as_json)


@session.command("reset")
def reset_session(
    context: typer.Context,
    session_id: Session,
    agent: OneAgent = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Forget what a session has been shown: all of it may be shown again."""
    event = {"type": SessionEventType.SESSION_CLEARED, "session_id": session_id, "tenant": tenant, "agent_id": agent}
    _tell(context, event, as_json)


def _tell(context: typer.Context, event: dict[str, Any], as_json: bool) -> None:
    try:
        payload = SessionEvent.model_validate(event).model_dump(mode="json", exclude_none=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        fail(fault["msg"].removeprefix("Value error, "), as_json=as_json)
    done = _call(context, SESSION_EVENT, payload, as_json)
    if as_json:
        print_json(done)
    else:
        say(f"forgotten: {done['forgotten']}, adopted: {done['adopted']}")


def _call(context: typer.Context, operation: str, payload: dict[str, Any], as_json: bool) -> dict[str, Any]:
    settings = settings_of(context, as_json=as_json)
    if settings.service.redis_url is None and not embedded_is_up(settings.service):
        fail(NO_SERVICE, as_json=as_json)

    async def work() -> dict[str, Any]:
        async with open_client(settings) as backend:
            return await backend.call(operation, payload, budget=BUDGET)

    return run(work(), as_json=as_json)
