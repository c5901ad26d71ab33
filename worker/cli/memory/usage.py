"""`meeseeks usage`: which memories help, as far as answers were reported."""

from typing import Annotated, Any

import typer

from worker.cli.backend import open_client
from worker.cli.options import AsJson, Tenant, run, settings_of
from worker.cli.output import print_json, say, show, table
from worker.operations.receipts import USAGE


def usage(
    context: typer.Context,
    never_used: Annotated[bool, typer.Option("--never-used", help="Only what no answer ever used.")] = False,
    min_injected: Annotated[int, typer.Option(min=1, help="Only what was injected at least so often.")] = 1,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Most memories to show.")] = 100,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """List how often memories were injected and used, the most neglected first; needs worker:post_execution."""
    settings = settings_of(context, as_json=as_json)
    payload = {"tenant": tenant, "never_used": never_used, "min_injected": min_injected, "limit": limit}

    async def work() -> dict[str, Any]:
        async with open_client(settings) as backend:
            return await backend.call(USAGE, payload)

    found = run(work(), as_json=as_json)
    if as_json:
        print_json(found)
        return
    if not found["counted"]:
        say("no answer has been reported yet; see docs/feedback.md")
        return
    rows = [
        [one["injected"], one["used"], (one["last_used"] or "never")[:10], one["id"], one["text"]]
        for one in found["memories"]
    ]
    show(table(None, ["injected", "used", "last used", "id", "memory"], rows))
