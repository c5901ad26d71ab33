"""`meeseeks inject`: shows which memories a message gets."""

import sys
from typing import Annotated

import typer

from hooks.contract import InjectionRequest, InjectionResult
from worker.cli.backend import note_other_models, open_client
from worker.cli.options import Agent, Project, Tenant, User, Zone, settings_of
from worker.cli.output import printed_as_json, say, summary
from worker.cli.running import run_async
from worker.operations.registry import INJECT


def inject(
    context: typer.Context,
    message: Annotated[str, typer.Argument(help="Message to the agent; `-` reads standard input.")],
    session: Annotated[str, typer.Option(help="Session id; repeats within it are left out.")] = "cli",
    user: User = None,
    project: Project = None,
    agent: Agent = "main",
    tenant: Tenant = "default",
    mode: Annotated[str | None, typer.Option(help="Mode: always, escalate, deterministic or off.")] = None,
    deadline_ms: Annotated[int, typer.Option(min=1, max=60_000, help="Time limit in milliseconds.")] = 3000,
    tz: Zone = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do not record the memories as shown.")] = False,
) -> None:
    """Show which memories a message gets, as the hook would inject them."""
    settings = settings_of(context)
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if message == "-" else message

    async def work() -> InjectionResult:
        request = InjectionRequest.model_validate(
            {
                "session_id": session,
                "agent_id": agent,
                "message": text,
                "scope": {"tenant": tenant, "user": user, "project": project},
                "mode": mode,
                "deadline_ms": deadline_ms,
                "dry_run": dry_run,
                "tz": tz,
            }
        )
        async with open_client(settings, with_model=True) as backend:
            await note_other_models(settings, backend)
            body = await backend.call(INJECT, request.model_dump(mode="json"), budget=deadline_ms / 1000)
        return InjectionResult.model_validate(body)

    result = run_async(work())
    if printed_as_json(result.model_dump(mode="json")):
        return
    say(result.memory_context or "(nothing injected)")
    say("")
    say(summary(result.outcome, result.reason, result.engine, result.elapsed_ms, result.stages))
    say(f"explain: meeseeks why {result.receipt_id}")
