"""Commands about single injections."""

import json
import sys
from typing import Annotated, Any

import typer

from hooks.contract import InjectionRequest, InjectionResult
from hooks.wire import INJECT
from worker.cli.backend import open_backend
from worker.cli.options import Agent, AsJson, Tenant, User, run, settings_of
from worker.cli.output import print_json, say, scores, show, summary, table
from worker.operations import RECEIPT, RECEIPTS


def inject(
    context: typer.Context,
    message: Annotated[str, typer.Argument(help="The worker's message; - reads standard input.")],
    session: Annotated[str, typer.Option(help="The conversation; repeats in it are left out.")] = "cli",
    user: User = None,
    agent: Agent = "main",
    tenant: Tenant = "default",
    mode: Annotated[str | None, typer.Option(help="always, escalate, deterministic or off.")] = None,
    deadline_ms: Annotated[int, typer.Option(min=1, max=60_000, help="Most milliseconds it may take.")] = 3000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Leave the session's ledger as it is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask for the memory of one message, as the hook would, and show the whole result."""
    settings = settings_of(context, as_json=as_json)
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if message == "-" else message

    async def work() -> InjectionResult:
        request = InjectionRequest.model_validate(
            {
                "session_id": session,
                "agent_id": agent,
                "message": text,
                "scope": {"tenant": tenant, "user": user},
                "mode": mode,
                "deadline_ms": deadline_ms,
                "dry_run": dry_run,
            }
        )
        async with open_backend(settings, with_model=True) as backend:
            body = await backend.call(INJECT, request.model_dump(mode="json"), budget=deadline_ms / 1000)
        return InjectionResult.model_validate(body)

    result = run(work(), as_json=as_json)
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    say(result.memory_context or "(nothing injected)")
    say("")
    say(summary(result.outcome, result.reason, result.engine, result.elapsed_ms, result.stages))
    say(f"receipt {result.receipt_id}")


def receipt(
    context: typer.Context,
    receipt_id: Annotated[
        str | None, typer.Argument(help="Id of the receipt; without one, the latest are listed.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to list.")] = 20,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Explain an injection: what was considered, chosen and dropped, why, and how long it took."""
    settings = settings_of(context, as_json=as_json)

    async def work() -> dict[str, Any]:
        async with open_backend(settings) as backend:
            if receipt_id is None:
                return await backend.call(RECEIPTS, {"tenant": tenant, "limit": limit})
            return await backend.call(RECEIPT, {"tenant": tenant, "id": receipt_id})

    found = run(work(), as_json=as_json)
    if as_json:
        print_json(found)
    elif receipt_id is None:
        _list(found["receipts"])
    else:
        _explain(found)


def _list(receipts: list[dict[str, Any]]) -> None:
    rows = [
        [
            entry["id"],
            entry["at"][:19],
            entry["outcome"],
            entry["reason"],
            entry["engine"],
            f"{entry['elapsed_ms']:.0f}",
        ]
        for entry in receipts
    ]
    show(table(None, ["receipt", "at", "outcome", "reason", "engine", "ms"], rows))


def _explain(found: dict[str, Any]) -> None:
    say(summary(found["outcome"], found["reason"], found["engine"], found["elapsed_ms"], found["stages"]))
    say(f"query: {found['query']}")
    for query in found["recalls"]:
        say(f"recalled again: {query}")
    if found["model"]:
        say(f"model: {json.dumps(found['model'])}")
    rows = [[entry["verdict"], *scores(entry), entry["id"], entry["text"]] for entry in found["considered"]]
    show(table(None, ["verdict", "score", "cosine", "keyword", "id", "memory"], rows))
