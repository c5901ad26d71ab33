"""`meeseeks store usage`: shows how often memories are injected and used in reported answers."""

from typing import Annotated

import typer

from worker.cli.backend import call
from worker.cli.options import Tenant
from worker.cli.output import printed_as_json, say, show, table
from worker.operations.registry import USAGE


def usage(
    context: typer.Context,
    never_used: Annotated[bool, typer.Option("--never-used", help="Only memories that no answer used.")] = False,
    min_injected: Annotated[int, typer.Option(min=1, help="Only memories injected at least this often.")] = 1,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Number of memories to show.")] = 100,
    tenant: Tenant = "default",
) -> None:
    """List how often memories were injected and used, least used first. Needs reports from the post-execution hook."""
    payload = {"tenant": tenant, "never_used": never_used, "min_injected": min_injected, "limit": limit}
    found = call(context, USAGE, payload)
    if printed_as_json(found):
        return
    if not found["counted"]:
        say("no answers reported yet; hooks report them with PostExecutionHook, other programs with POST /v1/answers")
        return
    rows = [
        [one["injected"], one["used"], (one["last_used"] or "never")[:10], one["id"], one["text"]]
        for one in found["memories"]
    ]
    show(table(None, ["injected", "used", "last used", "id", "memory"], rows))
